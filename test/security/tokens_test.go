package security

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/ares-scheduler/ares/test/live"
)

// This method returns attempts that use an invalid or expired token.
func (s *scene) tokens() []attempt {
	t, now := s.t, time.Now()
	good := sign(t, s.key, jose.RS256, s.claims(nil))
	if got, err := s.ask(t.Context(), good, http.MethodGet, "/api/v1/auth/whoami", "", nil); err != nil || got.code != http.StatusOK || !strings.Contains(got.body, "oidc:mallory") {
		t.Fatalf("a good token of the issuer: %v %d %s", err, got.code, got.body)
	}
	parts := strings.Split(good, ".")
	b64 := base64.RawURLEncoding.EncodeToString
	der, err := x509.MarshalPKIXPublicKey(s.key.Key.(*rsa.PrivateKey).Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	changed := strings.Replace(decode(parts[1]), `"red"`, `"blue"`, 1)
	all := map[string]string{
		"alg=none":               b64([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + ".",
		"alg=None":               b64([]byte(`{"alg":"None"}`)) + "." + b64([]byte(changed)) + ".",
		"alg=none, signed":       b64([]byte(`{"alg":"none","kid":"k1"}`)) + "." + parts[1] + "." + parts[2],
		"HS256 by public key":    sign(t, public, jose.HS256, s.claims(map[string]any{"team": "blue"})),
		"HS256 by DER":           sign(t, der, jose.HS256, s.claims(map[string]any{"team": "blue"})),
		"re-signed by another":   sign(t, newKey(t, "k1"), jose.RS256, s.claims(map[string]any{"team": "blue"})),
		"signed by an unknown":   sign(t, newKey(t, "k7"), jose.RS256, s.claims(nil)),
		"RS512":                  sign(t, s.key.Key, jose.RS512, s.claims(nil)),
		"its claims changed":     parts[0] + "." + b64([]byte(changed)) + "." + parts[2],
		"its signature cut":      parts[0] + "." + parts[1] + "." + parts[2][:100],
		"without a signature":    parts[0] + "." + parts[1] + ".",
		"four parts":             good + "." + parts[2],
		"a key in its header":    b64([]byte(`{"alg":"RS256","jku":"`+s.URL+`/keys","kid":"../../k1"}`)) + "." + parts[1] + "." + parts[2],
		"another issuer":         sign(t, s.key, jose.RS256, s.claims(map[string]any{"iss": "https://evil.example"})),
		"an issuer with a slash": sign(t, s.key, jose.RS256, s.claims(map[string]any{"iss": s.URL + "/"})),
		"another audience":       sign(t, s.key, jose.RS256, s.claims(map[string]any{"aud": "wiki"})),
		"no audience":            sign(t, s.key, jose.RS256, s.claims(map[string]any{"aud": nil})),
		"expired":                sign(t, s.key, jose.RS256, s.claims(map[string]any{"exp": now.Add(-time.Minute).Unix()})),
		"no expiry":              sign(t, s.key, jose.RS256, s.claims(map[string]any{"exp": nil})),
		"not yet":                sign(t, s.key, jose.RS256, s.claims(map[string]any{"nbf": now.Add(time.Hour).Unix()})),
		"a tenant as a path":     sign(t, s.key, jose.RS256, s.claims(map[string]any{"team": "red/../blue"})),
		"a list of tenants":      sign(t, s.key, jose.RS256, s.claims(map[string]any{"team": []string{"red", "blue"}})),
		"no subject":             sign(t, s.key, jose.RS256, s.claims(map[string]any{"sub": ""})),
		"a subject with a line":  sign(t, s.key, jose.RS256, s.claims(map[string]any{"sub": "a\nb"})),
		"a join token":           s.do(t, http.MethodPost, "/api/v1/join-tokens", `{"ttl_seconds":600}`)["token"].(string),
	}
	revoked := s.token(t, "gone", "red", "tenant-admin", 3600)
	if got, err := s.ask(t.Context(), revoked, http.MethodGet, "/api/v1/jobs", "", nil); err != nil || got.code != http.StatusOK {
		t.Fatalf("before it is revoked: %v %d %s", err, got.code, got.body)
	}
	s.do(t, http.MethodDelete, "/api/v1/tenants/red/tokens/gone", "")
	all["revoked"] = revoked
	s.secrets = append(s.secrets, revoked, good)
	conn := s.dial(t)
	var out []attempt
	for name, token := range all {
		a := s.rest("token over REST: "+name, token, http.MethodGet, "/api/v1/jobs", "", nil)
		a.codes = []string{"401"}
		out = append(out, a)
		for _, m := range methods(t) {
			if m.name == "JobService/ListJobs" {
				out = append(out, attempt{name: "token over gRPC: " + name, codes: []string{"Unauthenticated"}, try: func(ctx context.Context, n names, id string) (result, error) {
					return m.call(ctx, conn, id, "{}", "Bearer "+token)
				}})
			}
		}
	}
	// The subject of a valid OpenID token may look like another identity. The
	// token must not give the permissions of that identity.
	for _, sub := range []string{"token:blue/navy", "node:other", "admin"} {
		token := sign(t, s.key, jose.RS256, s.claims(map[string]any{"sub": sub, "groups": []string{"platform-admin", "writers"}}))
		a := s.rest("an OpenID subject called "+sub, token, http.MethodGet, "/api/v1/jobs/{job}", "", nil)
		a.same, a.codes = true, []string{"404"}
		out = append(out, a)
	}
	return out
}

func decode(s string) string {
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		panic(err) // it was just made
	}
	return string(data)
}

// endingTokens makes tokens. The returned function returns attempts that use
// these tokens after they have expired.
func (s *scene) endingTokens() func() []attempt {
	const life = 60
	service := s.token(s.t, "brief", "red", "tenant-admin", life)
	join := s.do(s.t, http.MethodPost, "/api/v1/join-tokens", fmt.Sprintf(`{"node_id":"late","ttl_seconds":%d}`, life))["token"].(string)
	begun := time.Now()
	return func() []attempt {
		live.Await(s.t, (life+30)*time.Second, "a token to end", func() (bool, string) {
			got, err := s.ask(s.t.Context(), service, http.MethodGet, "/api/v1/auth/whoami", "", nil)
			return time.Since(begun) > (life+1)*time.Second && err == nil && got.code == http.StatusUnauthorized, fmt.Sprint(got.code, got.body, err)
		})
		a := s.rest("an expired service token", service, http.MethodGet, "/api/v1/jobs", "", nil)
		a.codes = []string{"401"}
		b := s.join("an expired join token", join, "late")
		return []attempt{a, b}
	}
}

// This method returns attempts that exceed a size limit.
func (s *scene) sizes() []attempt {
	long, huge := strings.Repeat("a", 5000), strings.Repeat("a", 2<<20)
	spec := func(more string) string { return `{"request_id":"{id}","name":"x","command":["true"],` + more + `}` }
	job := spec(`"cpu_cores":1`)
	var out []attempt
	add := func(name, method, path, body string, codes ...string) {
		a := s.rest("size: "+name, s.red, method, path, body, nil)
		a.codes = codes
		out = append(out, a)
	}
	add("a body of 2 MiB", "POST", "/api/v1/jobs", spec(`"image":"`+huge+`"`), "413")
	add("a batch of 17 MiB", "POST", "/api/v1/jobs:batch", `{"jobs":[`+spec(`"image":"`+strings.Repeat("a", 17<<20)+`"`)+`]}`, "413")
	add("a batch of 1,001", "POST", "/api/v1/jobs:batch", `{"jobs":[`+strings.Repeat(job+",", 1000)+job+`]}`, "400")
	add("a body of 2 MiB of brackets", "POST", "/api/v1/jobs", strings.Repeat("[", 2<<20), "413")
	add("a body of brackets", "POST", "/api/v1/jobs", strings.Repeat("[", 500_000), "400")
	add("a body of objects", "POST", "/api/v1/jobs", strings.Repeat(`{"job":`, 50_000), "400")
	for field, value := range map[string]string{
		"name": `"` + long + `"`, "tenant_id": `"` + long + `"`, "queue": `"` + long + `"`, "gpu_model": `"` + long + `"`, "working_dir": `"` + long + `"`, "image": `"` + long + `"`,
		"command": `["` + strings.Repeat("a", 200_000) + `"]`, "environment": `{"A":"` + strings.Repeat("a", 200_000) + `"}`, "labels": `{"` + long + `":"x"}`,
		"members": `1000000000`, "gpu_count": `-1`, "cpu_cores": `99999999999999`, "memory_mb": `1e400`, "priority": `2000000`, "max_runtime_minutes": `-5`, "array": `{"count":1000000000}`, "after": `[` + strings.Repeat(`"job-aaaaaaaaaaaaaaaaaaaaaaaa",`, 5000) + `"x"]`,
	} {
		body := `{"request_id":"{id}","command":["true"],"` + field + `":` + value + `}`
		if field == "command" {
			body = `{"request_id":"{id}","command":` + value + `}`
		}
		add("a job's "+field, "POST", "/api/v1/jobs", body)
	}
	add("a request's ID", "POST", "/api/v1/jobs", `{"request_id":"`+long+`","name":"x","command":["true"]}`)
	for _, list := range []string{"jobs", "tokens", "bindings", "policies", "queues", "nodes", "tenants", "reservations", "audit", "preemptions"} {
		add("a page of "+list, "GET", "/api/v1/"+list+"?page_size=100000", "", "400")
		add("a page of less than none of "+list, "GET", "/api/v1/"+list+"?page_size=-1", "", "400")
	}
	add("a page token", "GET", "/api/v1/jobs?page_token="+long, "")
	add("a name of a queue", "POST", "/api/v1/queues", `{"tenant_id":"red","name":"`+long+`"}`)
	add("a name of a token", "POST", "/api/v1/tokens", `{"tenant_id":"red","name":"`+long+`","bindings":[{"role":"viewer","tenant_id":"red"}]}`)
	add("a token's life", "POST", "/api/v1/tokens", `{"tenant_id":"red","name":"t","bindings":[{"role":"viewer","tenant_id":"red"}],"lifetime_seconds":999999999999}`)
	add("a token's bindings", "POST", "/api/v1/tokens", `{"tenant_id":"red","name":"t","bindings":[`+strings.Repeat(`{"role":"viewer","tenant_id":"red"},`, 40)+`{"role":"viewer","tenant_id":"red"}]}`)
	add("a subject", "POST", "/api/v1/bindings", `{"subject":"oidc:`+long+`","role":"viewer","tenant_id":"red"}`)
	add("a policy's rule", "PUT", "/api/v1/policies", `{"name":"p","tenant_id":"red","on":"submission","rule":"`+strings.Repeat("true && ", 20_000)+`true"}`)
	add("a policy's depth", "PUT", "/api/v1/policies", `{"name":"p","tenant_id":"red","on":"submission","rule":"`+strings.Repeat("(", 3000)+"true"+strings.Repeat(")", 3000)+`"}`)
	return out
}
