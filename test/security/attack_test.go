package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/live"
)

// The constant `least` is the minimum number of distinct attempts.
const least = 320

// This type holds the object names in a request. The names are either those of
// tenant blue's objects, or unknown names of the same lengths.
type names struct{ tenant, job, queue, token, policy, reservation string }

func (n names) in(text, id string) string {
	return strings.NewReplacer("{tenant}", n.tenant, "{job}", n.job, "{queue}", n.queue, "{token}", n.token, "{policy}", n.policy, "{reservation}", n.reservation, "{id}", id).Replace(text)
}

// This method removes the names from an answer.
func (n names) out(text, id string) string {
	return strings.NewReplacer(n.job, "{job}", n.tenant, "{tenant}", n.queue, "{queue}", n.token, "{token}", n.policy, "{policy}", n.reservation, "{reservation}", id, "{id}").Replace(text)
}

// The type `result` holds the server's answer to an attempt.
type result struct {
	code    string
	refused bool // as it should be
	broken  bool // a fault of the server
	text    string
}

// An `attempt` is one request that an attacker tries.
type attempt struct {
	name string
	// This function makes the request for the objects in n, with the given request
	// ID.
	try func(ctx context.Context, n names, id string) (result, error)
	// If the field `same` is true, the answer for blue's objects must equal the
	// answer for objects that do not exist.
	same bool
	// If the field `answered` is true, the call may succeed, but its answer must
	// contain nothing about tenant blue.
	answered bool
	// This field lists the allowed error codes of the rejection. If the list is
	// empty, any code is allowed.
	codes []string
	// If the field `unheard` is true, the request is rejected before it becomes an
	// API call. The audit log then has no entry for it.
	unheard bool
}

// A `scene` is a server with the two tenants red and blue.
type scene struct {
	*testServer
	*issuer
	t                         *testing.T
	red, submitter, blueToken string
	blue, none                names
	secrets                   []string        // of blue's: in no answer
	made                      map[string]bool // attempts
}

func newScene(t *testing.T, config ...string) *scene {
	t.Helper()
	i := newIssuer(t)
	p := startServer(t, fmt.Sprintf("auth: {oidc: {issuer: %q, audience: ares, tenant_claim: team, groups_claim: groups, roles: {writers: submitter}, clock_skew_seconds: 1}}\n", i.URL)+strings.Join(config, ""))
	s := &scene{testServer: p, issuer: i, t: t, made: map[string]bool{}}
	for _, name := range []string{"blue", "red"} {
		p.do(t, http.MethodPost, "/api/v1/tenants", fmt.Sprintf(`{"id":%q,"name":%q,"max_gpus":64,"max_gpu_memory_mb":8000000,"max_cpu_cores":640,"max_memory_mb":8000000,"max_concurrent_jobs":64}`, name, name))
	}
	p.do(t, http.MethodPost, "/api/v1/queues", `{"tenant_id":"blue","name":"azure"}`)
	s.blueToken = p.token(t, "navy", "blue", "tenant-admin", 3600)
	s.red = p.token(t, "boss", "red", "tenant-admin", 3600)
	s.submitter = p.token(t, "worker", "red", "submitter", 3600)
	p.do(t, http.MethodPost, "/api/v1/bindings", `{"subject":"oidc:cyan","role":"viewer","tenant_id":"blue"}`)
	p.do(t, http.MethodPut, "/api/v1/policies", `{"name":"indigo","tenant_id":"blue","on":"submission","rule":"job.name != \"ultramarine\"","why":"cerulean"}`)
	got := p.do(t, http.MethodPost, "/api/v1/jobs", `{"request_id":"lapis","name":"cobalt","tenant_id":"blue","queue":"azure","command":["sleep","periwinkle"],"environment":{"K":"sapphirine"}}`)
	p.do(t, http.MethodPost, "/api/v1/reservations", fmt.Sprintf(`{"name":"topaz","tenant_id":"blue","from":%q,"until":%q,"node_selector":{"pool":"turquoise"}}`,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339), time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)))
	s.blue = names{"blue", got["job_id"].(string), "azure", "navy", "indigo", "topaz"}
	s.none = names{"grey", "job-aaaaaaaaaaaaaaaaaaaaaaaa", "stone", "rock", "pebble", "quart"}
	s.secrets = []string{s.blue.job, "azure", "navy", "indigo", "ultramarine", "cerulean", "lapis", "cobalt", "periwinkle", "sapphirine", "turquoise", "cyan", s.blueToken}
	return s
}

// This method returns all objects of tenant blue.
func (s *scene) estate() string {
	s.t.Helper()
	var all []string
	for _, path := range []string{"/api/v1/tenants/blue", "/api/v1/jobs?tenant_id=blue", "/api/v1/tenants/blue/queues", "/api/v1/tokens?tenant_id=blue", "/api/v1/bindings?tenant_id=blue", "/api/v1/policies?tenant_id=blue", "/api/v1/reservations", "/api/v1/tenants", "/api/v1/join-tokens", "/api/v1/secrets?tenant_id=blue", "/api/v1/revocations", "/api/v1/prices"} {
		got := s.do(s.t, http.MethodGet, path, "")
		delete(got, "revision")
		delete(got, "as_of_revision")
		text, err := json.Marshal(got)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, path+" "+string(text))
	}
	return strings.Join(all, "\n")
}

// TestHostile makes every attempt against a real server.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	streams := s.openStreams()
	ending := s.endingTokens()
	trials := slices.Concat(s.everyMethod(), s.forgeries(), s.paths(), s.headers(), s.raw(), s.tokens(), s.sizes(), s.nodes(), s.auditAttempts(), s.stealSecrets(), s.nodeClaims())
	before := s.estate()
	heard := s.make(trials)
	heard = append(heard, s.make(streams())...)
	if after := s.estate(); after != before {
		t.Errorf("blue had\n%s\nand has\n%s", before, after)
	}
	s.audited(append(heard, s.make(ending())...))
	if len(s.made) < least {
		t.Errorf("%d attempts, want %d or more", len(s.made), least)
	}
}

// This method performs each attempt twice, first for blue's objects and then
// for unknown objects. The method returns the request IDs that the audit log
// must contain.
func (s *scene) make(all []attempt) (heard []string) {
	s.t.Helper()
	for _, a := range all {
		if s.made[a.name] {
			s.t.Errorf("there are two attempts called %q", a.name)
		}
		s.made[a.name] = true
		id := fmt.Sprintf("attempt-%04d", len(s.made))
		got, err := a.try(s.t.Context(), s.blue, id)
		if err != nil {
			s.t.Errorf("%s: %v", a.name, err)
			continue
		}
		s.judge(&a, id, got)
		if got.refused && !a.unheard {
			heard = append(heard, id)
		}
		if !a.same {
			continue
		}
		id = fmt.Sprintf("control-%04d", len(s.made))
		want, err := a.try(s.t.Context(), s.none, id)
		if err != nil {
			s.t.Errorf("%s: %v", a.name, err)
			continue
		}
		heard = append(heard, id)
		if x, y := s.blue.out(got.text, fmt.Sprintf("attempt-%04d", len(s.made))), s.none.out(want.text, id); got.code != want.code || x != y {
			s.t.Errorf("%s: what is another's is told from what is not there:\n%s %s\n%s %s", a.name, got.code, x, want.code, y)
		}
	}
	return heard
}

// This method reports what is wrong with an answer.
func (s *scene) judge(a *attempt, id string, got result) {
	s.t.Helper()
	switch {
	case got.broken:
		s.t.Errorf("%s (%s): the server fails: %s %s", a.name, id, got.code, got.text)
	case !got.refused && !a.answered:
		s.t.Errorf("%s (%s): is not refused: %s %s", a.name, id, got.code, got.text)
	case got.refused && len(a.codes) > 0 && !slices.Contains(a.codes, got.code):
		s.t.Errorf("%s (%s): refused with %s, want one of %v: %s", a.name, id, got.code, a.codes, got.text)
	}
	for _, secret := range s.secrets {
		// An answer may repeat the names in its own request.
		if strings.Contains(got.text, secret) && !slices.Contains([]string{s.blue.job, s.blue.queue, s.blue.token, s.blue.policy, "cyan"}, secret) {
			s.t.Errorf("%s (%s): blue's %q is in the answer: %s %s", a.name, id, secret, got.code, got.text)
		}
	}
	if !got.refused && strings.Contains(got.text, s.blue.job) {
		s.t.Errorf("%s (%s): answers with blue's job: %s", a.name, id, got.text)
	}
}

// This method checks that the audit log contains every rejection. A rejection is
// either an entry with its request ID, or part of an entry that counts similar
// rejections.
func (s *scene) audited(heard []string) { s.t.Helper(); s.auditedAtLeast(heard, least) }

// auditedAtLeast is `audited` for a scene with fewer attempts.
func (s *scene) auditedAtLeast(heard []string, least int) {
	s.t.Helper()
	var entries []struct {
		RequestID string `json:"request_id"`
		Count     int    `json:"count"`
		Status    string `json:"status"`
	}
	var missing []string
	live.Await(s.t, 30*time.Second, "every refusal to be in the audit", func() (bool, string) {
		known, counted := map[string]bool{}, 0
		page := ""
		for {
			got := s.do(s.t, http.MethodGet, "/api/v1/audit?status=refused&page_size=1000&page_token="+page, "")
			data, err := json.Marshal(got["entries"])
			if err != nil {
				s.t.Fatal(err)
			}
			entries = entries[:0]
			if err = json.Unmarshal(data, &entries); err != nil {
				s.t.Fatal(err)
			}
			for _, e := range entries {
				known[e.RequestID] = true
				counted += e.Count
			}
			if page, _ = got["next_page_token"].(string); page == "" {
				break
			}
		}
		missing = missing[:0]
		for _, id := range heard {
			if !known[id] {
				missing = append(missing, id)
			}
		}
		return len(missing) <= counted, fmt.Sprintf("of %d, %d are neither written nor among %d that were counted: %v", len(heard), len(missing)-counted, counted, missing)
	})
	if out, err := s.run(s.t, "audit", "verify"); err != nil {
		s.t.Errorf("ares audit verify: %v %s", err, out)
	}
	s.t.Logf("%d attempts, %d refusals in the audit, of which %d were counted together", len(s.made), len(heard), len(missing))
}
