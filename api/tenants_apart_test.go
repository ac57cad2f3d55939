package api

import (
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// The type `decider` runs the real engine behind the API. The engine has its own view of the
// store, and its plans are committed one by one.
type decider struct {
	mu    sync.Mutex
	state *engine.State
}

func (d *decider) Refusal(id ares.JobID) ares.Refusal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return engine.Refusal(d.state, id, time.Now())
}

func (d *decider) Explain(id ares.JobID) ares.Explanation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return engine.Explain(d.state, id, time.Now())
}

func (d *decider) Plan(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return engine.WhatIf(d.state, job, p, time.Now())
}

func (d *decider) Fairness() ares.Fairness {
	d.mu.Lock()
	defer d.mu.Unlock()
	return engine.Fairness(d.state, time.Now())
}

func (d *decider) Consolidate() (would []ares.Consolidation, done bool, gain int) {
	return nil, false, 2000
}

func (d *decider) Snapshot(io.Writer, string) error { return nil }

// The type `neighbours` is a server with tenants that compete for the same nodes.
type neighbours struct {
	*estate
	engine *decider
	view   *cache.View // the view that the engine follows
	lead   *store.Leadership
	nodes  map[string]*storetest.Node
	latest []string // nodes of this episode
	all    []*neighbour
	// The field `described` counts phrases that an answer uses instead of the name of an object. The
	// keys of this map are the phrases.
	described map[string]int
}

// A `neighbour` is one of the tenants in this test. The names of its objects are secrets that no other
// tenant may see.
type neighbour struct {
	id, queue string // its reservation is named "window-" plus its ID, and its policy has the name of its queue
	reserved  bool
	jobs      []string
	secrets   []string
}

// The method `secret` returns a new name that cannot be guessed.
func (n *neighbour) secret() string {
	s := strings.ToLower(rand.Text()[:16])
	n.secrets = append(n.secrets, s)
	return s
}

func newNeighbours(t *testing.T) *neighbours {
	cfg := config.Default()
	cfg.Preemption.Enabled = true
	n := &neighbours{
		estate: &estate{tokens: map[string]string{}, jobs: map[string]string{}}, nodes: map[string]*storetest.Node{},
		described: map[string]int{"reserved for another tenant": 0, "another tenant's reservation": 0, "preempted by a job of another tenant": 0},
		engine:    &decider{state: engine.NewWith(cfg)}, view: cache.NewView(time.Now),
	}
	log := openLog(t, nil)
	past, err := history.Open(history.Config{File: filepath.Join(t.TempDir(), "history.db")})
	must(t, err)
	t.Cleanup(func() { must(t, past.Close()) })
	n.house = newHouse(t, func(c *Config) {
		c.Audit, c.AuditLog = log, log
		c.Accounting = &accounting.Accounting{View: c.View, History: past, Now: time.Now}
		c.AgentService, c.Logs, c.Engine = noAgents{}, noLogs{}, n.engine
		c.Predict = func(*ares.Job) ares.RuntimePredicted {
			return ares.RuntimePredicted{P50: time.Minute, P90: time.Hour}
		}
	})
	n.view.Feed(func(b ares.Batch) {
		n.engine.mu.Lock()
		defer n.engine.mu.Unlock()
		b.At = time.Now()
		n.engine.state.Apply(b)
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.view.Run(ctx, n.store, func(error) {}) }) // it ends with ctx
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	n.conn = n.dial()
	n.lead, _ = storetest.NewLead(t, n.store)
	return n
}

// The method `join` adds a tenant with a queue, a reservation, a policy, a binding and tokens.
func (n *neighbours) join(r *rapid.T) *neighbour {
	t, ctx := n.t, n.t.Context()
	o := &neighbour{}
	o.id = o.secret()
	limits := ares.NoLimits()
	if rapid.Bool().Draw(r, "limited") {
		limits.GPUs = rapid.IntRange(16, 24).Draw(r, "max_gpus")
	}
	tenant := ares.Tenant{ID: o.id, Name: o.secret(), Limits: limits, Weight: 1, MayPreempt: true}
	if rapid.Bool().Draw(r, "has quota") {
		tenant.Quotas = []ares.Quota{{Nominal: rapid.IntRange(16, 24).Draw(r, "nominal"), Borrow: ares.Unlimited, Lend: ares.Unlimited}}
	}
	must(t, n.store.RegisterTenant(ctx, tenant))
	o.queue = o.secret()
	_, err := n.store.CreateQueue(ctx, ares.Queue{Tenant: o.id, Name: o.queue, Limits: ares.NoLimits(), Weight: 1})
	must(t, err)
	_, err = n.store.CreateBinding(ctx, store.Binding{Subject: "oidc:" + o.secret(), Binding: ares.Binding{Role: ares.Viewer, Tenant: o.id}})
	must(t, err)
	_, _, err = n.store.ApplyPolicy(ctx, ares.Policy{Name: o.queue, Tenant: o.id, On: ares.OnSubmission, Rule: "true", Action: ares.Warn, Why: o.secret(), Message: o.secret(), At: time.Now()}.WithDefaults())
	must(t, err)
	n.put(o.secret(), o.id, ares.Binding{Role: ares.Viewer, Tenant: o.id})
	for _, role := range []ares.Role{ares.Viewer, ares.Submitter, ares.TenantAdmin, ares.Auditor} {
		n.tokens[o.id+string(role)] = n.put(string(role), o.id, ares.Binding{Role: role, Tenant: o.id})
	}
	n.cfg.Auth.Changed()
	n.all = append(n.all, o)
	return o
}

// The method `reserve` reserves nodes for the tenant, now or soon, unless the tenant already has a
// reservation.
func (n *neighbours) reserve(r *rapid.T, o *neighbour) {
	if o.reserved {
		return
	}
	o.reserved = true
	from := time.Now().Add(time.Duration(rapid.IntRange(-5, 10).Draw(r, "from")) * time.Minute)
	made := ares.Reservation{
		Name: "window-" + o.id, Tenant: o.id, From: from, Until: from.Add(time.Hour), Why: o.secret(), By: o.secret(), CreatedAt: time.Now(),
		Drain: rapid.Bool().Draw(r, "drain"), Nodes: n.someNodes(r),
	}
	if rapid.Bool().Draw(r, "for its queue") {
		made.Queue = o.queue
	}
	_, err := n.store.CreateReservation(n.t.Context(), made)
	must(n.t, err)
}

// someNodes returns one or two of the newest nodes.
func (n *neighbours) someNodes(r *rapid.T) []string {
	return slices.Clone(n.latest[rapid.IntRange(0, 1).Draw(r, "nodes"):])
}

// The method `contest` makes a critical job of the first tenant preempt a job of the second
// tenant.
func (n *neighbours) contest(r *rapid.T, pair []*neighbour) {
	n.submitAs(r, pair[1], 8, "low")
	n.submitAs(r, pair[1], 8, "low")
	n.decide()
	n.submitAs(r, pair[0], 8, "critical")
	n.decide()
	if rapid.Bool().Draw(r, "obeys") {
		n.obey()
	}
}

// The method `send` submits a random job of the tenant.
func (n *neighbours) send(r *rapid.T, o *neighbour) {
	var more []any
	if len(o.jobs) > 0 && rapid.IntRange(0, 3).Draw(r, "after") == 0 {
		more = []any{"after", []string{rapid.SampledFrom(o.jobs).Draw(r, "before")}}
	}
	n.submitAs(r, o, rapid.IntRange(1, 8).Draw(r, "gpus"), rapid.SampledFrom([]string{"low", "normal", "high", "critical"}).Draw(r, "class"), more...)
}

// submitAs submits a job of the tenant.
func (n *neighbours) submitAs(r *rapid.T, o *neighbour, gpus int, class string, more ...any) {
	spec := append(more,
		"tenant_id", o.id, "name", o.secret(), "labels", map[string]any{"k": o.secret()}, "args", []string{o.secret()},
		"gpu_count", gpus, "priority_class", class,
	)
	if rapid.Bool().Draw(r, "in its queue") {
		spec = append(spec, "queue", o.queue)
	}
	a := n.do("POST", "/api/v1/jobs", job(spec...))
	if a.code != 201 {
		return // a limit rejects the job
	}
	id := a.json["job_id"].(string)
	o.jobs, o.secrets = append(o.jobs, id), append(o.secrets, id)
}

// The method `decide` commits the engine's next plan, and makes the nodes claim their seats.
func (n *neighbours) decide() {
	n.follow()
	n.engine.mu.Lock()
	plan := engine.Decide(n.engine.state, time.Now())
	changes := scheduler.Changes(n.engine.state, &plan)
	n.engine.mu.Unlock()
	if plan.Empty() {
		return
	}
	_, _, err := n.store.Commit(n.t.Context(), n.lead, plan.Digest(), changes)
	must(n.t, err)
	n.follow()
	for _, p := range plan.Place {
		e := n.house.view.Job(p.Job)
		if e == nil || e.Run.Current() == nil {
			continue
		}
		a := e.Run.Current()
		for i := range a.Seats {
			ref := store.SeatRef{Job: p.Job, Fence: a.Fence, Rank: a.Seats[i].Rank, Node: a.Seats[i].Node}
			must(n.t, n.store.Claim(n.t.Context(), ref, n.nodes[ref.Node].Session, time.Now()))
		}
	}
	n.follow()
}

// The method `obey` ends the attempts that were asked to stop.
func (n *neighbours) obey() {
	for _, o := range n.all {
		for _, id := range o.jobs {
			e := n.house.view.Job(ares.JobID(id))
			if e == nil || e.Run.Stop == nil || e.Run.Current() == nil {
				continue
			}
			a := e.Run.Current()
			for i := range a.Seats {
				ref := store.SeatRef{Job: e.Job.ID, Fence: a.Fence, Rank: a.Seats[i].Rank, Node: a.Seats[i].Node}
				_, err := n.store.Finish(n.t.Context(), ref, storetest.Result(ares.OutcomeStopped), time.Now())
				must(n.t, err)
				storetest.Release(n.t, n.store, ref)
			}
		}
	}
	n.follow()
}

// The method `follow` waits until both views contain everything that is stored.
func (n *neighbours) follow() {
	n.seen()
	must(n.t, n.view.WaitFor(n.t.Context(), n.house.view.Revision()))
}

// The method `check` checks that an answer to a tenant contains no name of another tenant's
// object.
func (n *neighbours) check(r *rapid.T, to *neighbour, what, answer string) {
	for _, o := range n.all {
		for _, s := range o.secrets {
			if o != to && strings.Contains(answer, s) {
				r.Fatalf("%s tells a tenant %s of another one:\n%s", what, s, answer)
			}
		}
	}
	for words := range n.described {
		n.described[words] += strings.Count(answer, words)
	}
}

// The method `events` returns everything that WatchEvents sends after a revision. To find the end,
// the method submits a job of the tenant as a marker and stops at that job's event.
func (n *neighbours) events(r *rapid.T, to *neighbour, token string, from int64) string {
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	s, err := apipb.NewClusterServiceClient(n.conn).WatchEvents(as(ctx, token), &apipb.WatchEventsRequest{Revision: strconv.FormatInt(from, 10)})
	must(n.t, err)
	before := len(to.jobs)
	for len(to.jobs) == before {
		n.send(r, to)
	}
	all := ""
	for {
		e, err := s.Recv()
		must(n.t, err)
		if all += e.String(); e.GetJobId() == to.jobs[before] {
			return all
		}
	}
}

// The function `writes` reports whether a method's name shows that the method changes something or
// is not meant for tenants. For the methods that change something, TestAccess checks the errors
// about other tenants' objects.
func writes(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	return strings.Contains(method, "AgentService") || slices.ContainsFunc([]string{
		"Apply", "Backup", "Cancel", "Cordon", "Create", "Delete", "Drain", "Dump", "Join", "Record", "Remove", "Renew", "Retry", "Revoke",
		"Set", "Submit", "Test", "Uncordon", "Update",
	}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// TestTenantsAreToldNothingOfEachOther lets pairs of tenants compete for nodes in random ways. In each
// state it calls every method that only reads, with every role of each tenant. No answer to one tenant
// may contain a name of another tenant's object.
func TestTenantsAreToldNothingOfEachOther(t *testing.T) {
	const episodes = 6 // each adds tenants and nodes to the ones before
	n := newNeighbours(t)
	_, err := n.store.OpenSession(t.Context(), ares.Node{ID: "n1"}, "0123456789abcdef", "here:1", 5*time.Minute, 0) // the node that requests name
	must(t, err)
	all := methods()
	reads := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), writes) // a new method counts as a read
	runs := 0
	rapid.Check(t, func(r *rapid.T) {
		if runs++; runs > episodes {
			return
		}
		n.latest = nil
		for range 2 {
			node := storetest.NewNode(t, n.store)
			n.nodes[node.ID], n.latest = node, append(n.latest, node.ID)
		}
		pair := []*neighbour{n.join(r), n.join(r)}
		n.follow()
		from := n.house.view.Revision()
		n.contest(r, pair)
		for range rapid.IntRange(4, 16).Draw(r, "steps") {
			o := rapid.SampledFrom(pair).Draw(r, "tenant")
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0:
				n.reserve(r, o)
			case 1, 2, 3:
				n.decide()
			case 4:
				n.obey()
			default:
				n.send(r, o)
			}
		}
		for _, o := range pair {
			n.reserve(r, o) // so that there are names to hide
			n.send(r, o)
		}
		n.decide()
		for _, o := range pair {
			n.readAll(r, all, reads, o, from)
		}
	})
	for words, count := range n.described {
		if t.Logf("%q in answers: %d times", words, count); count == 0 {
			t.Errorf("no answer said %q: nothing was tried", words)
		}
	}
}

// readAll calls the methods as every role of a tenant, for the tenant's own
// objects.
func (n *neighbours) readAll(r *rapid.T, all map[string]protoreflect.MethodDescriptor, methods []string, o *neighbour, from int64) {
	for _, role := range []ares.Role{ares.Viewer, ares.Submitter, ares.TenantAdmin, ares.Auditor} {
		token := n.tokens[o.id+string(role)]
		for _, m := range methods {
			if m == apipb.ClusterService_WatchEvents_FullMethodName {
				continue
			}
			about := []ids{{tenant: o.id, other: o.queue}}
			for _, id := range o.jobs {
				about = append(about, ids{tenant: o.id, job: id, other: o.queue})
			}
			if !takesJob(all[m]) {
				about = about[:1]
			}
			for _, in := range about {
				_, text := n.call(m, all[m], token, in)
				n.check(r, o, m+" as "+string(role), text)
			}
		}
		if role != ares.Auditor {
			n.check(r, o, "WatchEvents as "+string(role), n.events(r, o, token, from))
		}
	}
	n.check(r, o, "PlanJob", n.do("POST", "/api/v1/jobs:plan", job("tenant_id", o.id, "gpu_count", 8, "priority_class", "critical"), func(q *http.Request) {
		q.Header.Set("Authorization", "Bearer "+n.tokens[o.id+string(ares.Submitter)])
	}).body)
}

// takesJob reports whether a request of the method names a job.
func takesJob(m protoreflect.MethodDescriptor) bool {
	return m.Input().Fields().ByName("job_id") != nil
}
