package security

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// This method returns an attempt that sends a REST request. The path and the
// body contain placeholders for object names.
func (s *scene) rest(name, token, method, path, body string, header http.Header) attempt {
	return attempt{name: name, try: func(ctx context.Context, n names, id string) (result, error) {
		h := http.Header{"X-Request-Id": {id}}
		maps.Copy(h, header)
		got, err := s.ask(ctx, token, method, n.in(path, id), n.in(body, id), h)
		return heardOf(got), err
	}}
}

// heardOf converts a REST answer to a result, and drops the Date header.
func heardOf(got answer) result {
	header := got.header.Clone()
	header.Del("Date")
	var text strings.Builder
	_ = header.Write(&text) // to memory
	text.WriteString(got.body)
	return result{code: fmt.Sprint(got.code), refused: got.code/100 == 4, broken: got.code/100 == 5 || got.code/100 == 3, text: text.String()}
}

// everyMethod calls every method over gRPC and over REST as five different
// callers. The callers are tenant red's administrator, a caller with fewer
// permissions, a caller without a token, a caller with an invalid token, and a
// node. The requests of all callers name tenant blue's objects.
func (s *scene) everyMethod() []attempt {
	callers := []struct {
		name, token string
	}{{"red's admin", s.red}, {"red's submitter", s.submitter}, {"nobody", ""}, {"a stranger", "ares_" + strings.Repeat("x", 52)}, {"a node", s.node}}
	conn := s.dial(s.t)
	var out []attempt
	for _, m := range methods(s.t) {
		if m.verdict == open {
			continue
		}
		for i, who := range callers {
			a := attempt{name: who.name + " calls " + m.name}
			known := i < 2
			a.same = m.verdict == absent && known
			a.answered = m.verdict == filtered && known || strings.HasSuffix(m.name, "/WhoAmI") || strings.HasSuffix(m.name, "/CanI") || strings.HasSuffix(m.name, "/GetAuthority")
			switch {
			case !known && i < 4 && !m.joins():
				a.codes, a.answered = []string{"Unauthenticated", "401"}, false
			case i == 4 && m.agents(), i == 4 && strings.HasSuffix(m.name, "/RenewCertificate"):
				continue // the shared token is for these; see nodes
			}
			a.try = func(ctx context.Context, n names, id string) (result, error) {
				var auth []string
				if who.token != "" {
					auth = []string{"Bearer " + who.token}
				}
				return m.call(ctx, conn, id, n.in(m.request, id), auth...)
			}
			out = append(out, a)
			for _, r := range m.routes() {
				b := a
				b.name += " by " + r.verb + " " + r.template
				b.try = func(ctx context.Context, n names, id string) (result, error) {
					path, body, err := r.with(n.in(m.request, id))
					if err != nil {
						return result{}, err
					}
					got, err := s.ask(ctx, who.token, r.verb, path, body, http.Header{"X-Request-Id": {id}})
					return heardOf(got), err
				}
				out = append(out, b)
			}
		}
	}
	return out
}

// This method returns requests that name another tenant where only the caller's
// own tenant is allowed. The method also returns REST requests for streams,
// which the REST gateway does not serve.
func (s *scene) forgeries() []attempt {
	const spec = `"request_id":"{id}","name":"x","command":["true"]`
	var out []attempt
	add := func(name, method, path, body string, same, answered bool) {
		a := s.rest(name, s.red, method, path, body, nil)
		a.same, a.answered = same, answered
		out = append(out, a)
	}
	add("tenant in the query of a submission", "POST", "/api/v1/jobs?tenant_id={tenant}", `{`+spec+`,"tenant_id":"{tenant}"}`, true, false)
	add("tenant twice in a body", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"red","tenant_id":"{tenant}"}`, false, false)
	add("tenant in both spellings", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"red","tenantId":"{tenant}"}`, false, false)
	add("tenant in another case", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"BLUE"}`, false, false)
	add("tenant with a blank", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"{tenant} "}`, false, false)
	add("tenant with a NUL", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"red\u0000{tenant}"}`, false, false)
	add("tenant as a path", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"red/../{tenant}"}`, false, false)
	add("tenant a list", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":["{tenant}"]}`, false, false)
	add("tenant any", "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"*"}`, false, false)
	add("a submitter forged", "POST", "/api/v1/jobs", `{`+spec+`,"submitted_by":"token:blue/navy"}`, false, false)
	add("queue of another tenant", "POST", "/api/v1/jobs", `{`+spec+`,"queue":"{queue}"}`, true, false)
	add("queue by a path", "POST", "/api/v1/jobs", `{`+spec+`,"queue":"../{tenant}/{queue}"}`, false, false)
	add("queue by its tenant", "POST", "/api/v1/jobs", `{`+spec+`,"queue":"{tenant}/{queue}"}`, false, false)
	add("after another tenant's job", "POST", "/api/v1/jobs", `{`+spec+`,"after":["{job}"]}`, true, false)
	add("plan after another tenant's job", "POST", "/api/v1/jobs:plan", `{`+spec+`,"after":["{job}"]}`, false, true)
	add("a parent of another tenant", "POST", "/api/v1/queues", `{"tenant_id":"red","name":"thief","parent":"{queue}"}`, true, false)
	add("a parent by a path", "POST", "/api/v1/queues", `{"tenant_id":"red","name":"thief","parent":"{tenant}/{queue}"}`, false, false)
	add("move a queue by its body", "PATCH", "/api/v1/tenants/red/queues/default", `{"tenant_id":"{tenant}","name":"{queue}","weight":2}`, false, false)
	add("rename a tenant by its body", "PATCH", "/api/v1/tenants/red", `{"id":"{tenant}"}`, false, false)
	add("one's own tenant's limits", "PATCH", "/api/v1/tenants/red", `{"max_gpus":100000}`, false, false)
	for _, b := range []string{`{"role":"tenant-admin","tenant_id":"{tenant}"}`, `{"role":"submitter","tenant_id":"{tenant}"}`, `{"role":"viewer","tenant_id":"{tenant}","queue":"{queue}"}`} {
		add("a token bound to "+b, "POST", "/api/v1/tokens", `{"name":"t","tenant_id":"red","bindings":[`+b+`]}`, true, false)
		add("a binding to "+b, "POST", "/api/v1/bindings", strings.Replace(b, "{", `{"subject":"oidc:mallory",`, 1), true, false)
	}
	for _, b := range []string{`{"role":"platform-admin"}`, `{"role":"auditor"}`, `{"role":"viewer"}`, `{"role":"agent"}`, `{"role":"platform-admin","tenant_id":"red"}`, `{"role":"root","tenant_id":"red"}`, `{"role":"viewer","tenant_id":"*"}`} {
		add("a token bound to "+b, "POST", "/api/v1/tokens", `{"name":"t","tenant_id":"red","bindings":[`+b+`]}`, false, false)
		add("a binding to "+b, "POST", "/api/v1/bindings", strings.Replace(b, "{", `{"subject":"oidc:mallory",`, 1), false, false)
	}
	add("a token named into another tenant", "POST", "/api/v1/tokens", `{"name":"{tenant}/x","tenant_id":"red","bindings":[{"role":"viewer","tenant_id":"red"}]}`, false, false)
	add("a policy for all", "PUT", "/api/v1/policies", `{"name":"p","on":"submission","rule":"false"}`, false, false)
	add("a policy by its path", "PUT", "/api/v1/policies", `{"name":"../{tenant}/{policy}","tenant_id":"red","on":"submission","rule":"true"}`, false, false)
	add("a policy of all by name", "GET", "/api/v1/policies/{policy}", "", false, false)
	add("delete a policy of all", "DELETE", "/api/v1/policies/{policy}", "", false, false)
	add("logs", "GET", "/api/v1/jobs/{job}/logs", "", true, false)
	add("logs followed", "GET", "/api/v1/jobs/{job}/logs?follow=true", "", true, false)
	add("the store", "GET", "/api/v1/debug/store", "", false, false)
	add("a part of the store", "GET", "/api/v1/debug/store?prefix=/ares/tokens/", "", false, false)
	add("jobs of an array", "GET", "/api/v1/jobs?array_of={job}", "", false, true)
	add("jobs of a user", "GET", "/api/v1/jobs?all=true&user=token:blue/navy", "", false, true)
	add("jobs with a query twice", "GET", "/api/v1/jobs?tenant_id=red&tenant_id={tenant}", "", false, false)
	add("usage by tenants", "GET", "/api/v1/usage?by=tenant&tenant_id={tenant}&queue={queue}", "", true, false)
	add("audit of a job", "GET", "/api/v1/audit?object={job}", "", false, true)
	add("audit of another's tenant", "GET", "/api/v1/audit?tenant_id={tenant}&object={job}", "", true, false)
	for _, page := range []string{"blue", "Ymx1ZQ==", "%00", url.QueryEscape(`{"tenant":"blue"}`), "../blue", s.blue.job} {
		add("a forged page token "+page, "GET", "/api/v1/jobs?page_token="+url.QueryEscape(page), "", false, true)
		add("a forged page token of tokens "+page, "GET", "/api/v1/tokens?page_token="+url.QueryEscape(page), "", false, true)
	}
	return out
}
