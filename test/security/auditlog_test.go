package security

import (
	"fmt"
	"net/http"
	"strings"
)

// auditAttempts returns attempts to read, write or weaken the audit log, its mark in the store and the recordings of decisions.
// Tenants may read the entries about themselves. The rest belongs to the platform: heads, verification, entries about
// recordings and the mark.
func (s *scene) auditAttempts() []attempt {
	var out []attempt
	for _, who := range []struct{ name, token string }{{"red's admin", s.red}, {"red's submitter", s.submitter}, {"nobody", ""}, {"a node", s.node}} {
		for what, body := range map[string]string{
			"the end of the log":           `{"end_only":true}`,
			"the log against its own head": `{"end_only":true,"heads":[{"kind":"head","n":"1","server":"x","seq":"1","hash":"00","time":"2026-01-01T00:00:00Z","key":"AA==","signature":"AA=="}]}`,
		} {
			a := s.rest(who.name+" verifies "+what, who.token, http.MethodPost, "/api/v1/audit/verify", body, nil)
			a.codes = []string{"401", "403"}
			out = append(out, a)
		}
		a := s.rest(who.name+" dumps the mark of the log", who.token, http.MethodGet, "/api/v1/debug/store?prefix=audit/mark/", "", nil)
		a.codes = []string{"401", "403"}
		out = append(out, a)
	}
	for _, call := range []struct{ name, method, path, body string }{
		{"adds an entry", http.MethodPost, "/api/v1/audit", `{"action":"SUBMIT_JOB","status":"done"}`},
		{"removes the log", http.MethodDelete, "/api/v1/audit", ""},
		{"removes an entry", http.MethodDelete, "/api/v1/audit/1", ""},
		{"replaces the head", http.MethodPut, "/api/v1/audit/head", `{"seq":"1"}`},
		{"moves the mark", http.MethodPut, "/api/v1/audit/mark", `{"sequence":"1"}`},
		{"reads a recording", http.MethodGet, "/api/v1/recordings", ""},
		{"removes the recordings", http.MethodDelete, "/api/v1/recordings", ""},
		{"reads a file of the log", http.MethodGet, "/audit/audit-000000000001.jsonl", ""},
		{"reads the key of the log", http.MethodGet, "/api/v1/audit/..%2fhead.key", ""},
		{"pages with a head's number", http.MethodGet, "/api/v1/audit?page_token=-1", ""},
		{"pages with another server's name", http.MethodGet, "/api/v1/audit?page_token=h1.0.x", ""},
		{"asks for more than a page", http.MethodGet, "/api/v1/audit?page_size=100000", ""},
		{"gives too many heads", http.MethodPost, "/api/v1/audit/verify", `{"heads":[` + strings.TrimSuffix(strings.Repeat("{},", 1001), ",") + `]}`},
	} {
		out = append(out, s.rest("red "+call.name, s.red, call.method, call.path, call.body, nil))
	}
	s.secrets = append(s.secrets, `"RECORDING_DIGEST"`, `"AUDIT_OPENED"`)
	for _, query := range []string{"object=recording/", "action=RECORDING_DIGEST", "action=RECORDING_REMOVED", "action=AUDIT_OPENED", "own_log=true&object=recording/"} {
		a := s.rest(fmt.Sprintf("red lists the platform's entries with %s", query), s.red, http.MethodGet, "/api/v1/audit?"+query, "", nil)
		a.answered = true
		out = append(out, a)
	}
	return out
}
