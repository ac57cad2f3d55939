package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

const (
	adminToken = "ares-test-admin-token"
	nodeToken  = "ares-test-node-token"
	canary     = "canary-8f2b6c"
)

// The type `house` is a test server with a real store, a view of the store and the API, but without a
// scheduling loop.
type house struct {
	*Server
	*rest.Handler
	cfg    Config
	t      testing.TB
	store  *store.Store
	view   *cache.View
	server *httptest.Server
	log    *lockedBuffer

	mu       sync.Mutex
	observed map[string]ares.Code
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newHouse starts a test server. The functions in `change` can alter its configuration.
func newHouse(t testing.TB, change ...func(*Config)) *house {
	t.Helper()
	ctx := t.Context()
	st, err := store.Open(ctx, store.Config{Dir: t.TempDir(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, store: st, view: cache.NewView(time.Now), log: &lockedBuffer{}, observed: map[string]ares.Code{}}
	policies, err := admission.NewPolicies(h.view)
	must(t, err)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if runErr := h.view.Run(running, st, func(error) {}); runErr != nil {
			t.Errorf("view: %v", runErr)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
		_ = st.Close() // the directory is deleted with the test
	})
	must(t, h.view.WaitFor(ctx, 1)) // so that the view reports everything from here on
	must(t, st.RegisterTenant(ctx, ares.Tenant{ID: ares.DefaultTenant, Name: "Default", Limits: ares.NoLimits(), Weight: 1, MayPreempt: true}))
	must(t, st.PutToken(ctx, store.Token{Name: "admin", Hash: auth.HashToken(adminToken), Role: auth.RoleAdmin}))
	must(t, st.PutToken(ctx, store.Token{Name: "node", Hash: auth.HashToken(nodeToken), Role: auth.RoleNode}))
	cfg := Config{
		Admission: &admission.Admission{Store: st, View: h.view, Now: time.Now, MinLostAfter: 20 * time.Second, Policies: policies},
		View:      h.view,

		Policies: policies,
		Store:    st,
		Auth:     auth.New(auth.Config{Tokens: st.Tokens, Bindings: st.Bindings, Tenants: st.TenantIDs}),
		Trust:    newTrust(t, st),
		Log:      slog.New(slog.NewTextHandler(h.log, nil)),
		Engine:   &fakeEngine{},
		Version:  "test", Server: "127.0.0.1:1",
		Observe: func(method string, code ares.Code, _ time.Duration) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.observed[method] = code
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	if h.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	h.Handler, h.cfg = h.Server.rest, cfg
	h.ViewWait = time.Minute // a lagging view is not an error, but a list that lacks earlier writes is
	h.server = httptest.NewServer(h.HTTP())
	t.Cleanup(func() {
		h.Close(context.Background())
		h.server.Close()
	})
	h.seen() // wait for the writes above
	return h
}

// fakeEngine is a fake scheduling engine that has no nodes and returns preset
// answers.
type fakeEngine struct {
	before   func() // called before each answer, unless nil
	explains ares.Explanation
	blockers []ares.Blocker // default: the cluster has no node
	places   *ares.Placing
	fair     ares.Fairness
	moves    []ares.Consolidation
	told     *ares.RuntimePredicted // prediction for the last job that was planned
}

func (f *fakeEngine) Refusal(id ares.JobID) ares.Refusal {
	if f.before != nil {
		f.before()
	}
	if f.blockers != nil {
		return ares.Refusal{Job: id, Blockers: f.blockers}
	}
	return ares.Refusal{Job: id, Blockers: []ares.Blocker{{Kind: "nodes", Detail: ares.PlainText("there is no node")}}}
}

func (f *fakeEngine) Explain(id ares.JobID) ares.Explanation {
	e := f.explains
	e.Refusal = f.Refusal(id)
	return e
}

func (f *fakeEngine) Plan(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation) {
	f.told = p
	if f.places != nil {
		return *f.places, nil
	}
	e := f.Explain(job.ID)
	return ares.Placing{}, &e
}

func (f *fakeEngine) Fairness() ares.Fairness { return f.fair }

func (f *fakeEngine) Consolidate() (would []ares.Consolidation, done bool, gain int) {
	return f.moves, false, 2000
}

func (f *fakeEngine) Snapshot(w io.Writer, build string) error {
	_, err := io.WriteString(w, "recorded by "+build)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The type `answer` is a complete HTTP response.
type answer struct {
	code   int
	header http.Header
	body   string
	json   map[string]any
}

// The method `do` makes a request as the administrator. A body that is not a string is sent as JSON. If
// the argument `body` is nil, the request has no body.
func (h *house) do(method, path string, body any, change ...func(*http.Request)) answer {
	h.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		must(h.t, err)
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.server.URL+path, r)
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(req)
	}
	resp, err := h.server.Client().Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(h.t, err)
	a := answer{code: resp.StatusCode, header: resp.Header, body: string(data)}
	if method != http.MethodHead && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(data, &a.json); err != nil {
			h.t.Errorf("%s %s answered what is not JSON: %s", method, path, data)
		}
	}
	return a
}

// The method `refused` checks that an answer is an error with the given code, and that its text
// contains each of the given words.
func (h *house) refused(a answer, status int, code ares.Code, words ...string) {
	h.t.Helper()
	if a.code != status || a.json["code"] != string(code) {
		h.t.Errorf("answered %d %s, want %d with code %s", a.code, a.body, status, code)
	}
	if _, ok := a.json["details"].([]any); !ok {
		h.t.Errorf("details is not a list: %s", a.body)
	}
	for _, w := range words {
		if !strings.Contains(a.body, w) {
			h.t.Errorf("answered %s, want it to say %q", a.body, w)
		}
	}
}

// The method `stored` counts the records in the store whose keys have the given prefix.
func (h *house) stored(room string) int {
	h.t.Helper()
	n := 0
	must(h.t, h.store.Dump(h.t.Context(), room, func(store.Raw) error { n++; return nil }))
	return n
}

// The function `job` returns a valid submission. The arguments are names and values of fields to add or
// replace.
func job(more ...any) map[string]any {
	j := map[string]any{"name": "train", "command": []string{"true"}}
	for i := 0; i < len(more); i += 2 {
		j[more[i].(string)] = more[i+1]
	}
	return j
}

// The method `submit` submits a job and returns its ID.
func (h *house) submit(more ...any) string {
	h.t.Helper()
	a := h.do("POST", "/api/v1/jobs", job(more...))
	if a.code != http.StatusCreated {
		h.t.Fatalf("submit answered %d %s", a.code, a.body)
	}
	return a.json["job_id"].(string)
}

// The method `seen` waits until the view contains everything that is in the store at the time of the call.
func (h *house) seen() {
	h.t.Helper()
	snap, err := h.store.Job(h.t.Context(), ares.NewJobID("nobody", "nothing"))
	if ares.CodeOf(err) != ares.NotFound {
		h.t.Fatal(err)
	}
	must(h.t, h.view.WaitFor(h.t.Context(), snap.Revision))
}
