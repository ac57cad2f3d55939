package federation_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/boottime"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

const heartbeat = 200 * time.Millisecond

// A hub is one server of a hub on loopback, with its own store.
type hub struct {
	t      *testing.T
	s      *store.Store
	view   *cache.View
	hub    *federation.Hub
	addr   string
	tenant ares.Tenant
	// choosing is true if the hub chooses clusters by their summaries.
	choosing bool
	choose   func(*ares.Job, *ares.Run, []federation.Candidate) []string // or how it chooses, if not nil
	record   func(context.Context, *store.Roster) error                  // writes rosters into history, or nil
	alarm    atomic.Pointer[chan string]                                 // gets the reasons of refused hellos
	now      func() time.Time                                            // its clock, or nil for time.Now
	seal     func(cluster string, revision int64, word string) []byte    // or nil
	options  []grpc.ServerOption
	stop     func()
	// The hub calls authenticate while it handles a hello, if it is not nil.
	authenticate func(ctx context.Context, cluster string) error
	// While caller is true, the hub compares the cluster that a member names with the caller's metadata.
	caller atomic.Bool
}

func newHub(t *testing.T, edit ...func(*hub)) *hub {
	t.Helper()
	h := &hub{t: t, s: storetest.Embedded(t)}
	if isLater(t, laterHub) {
		h.options = append(h.options, grpc.StreamInterceptor(laterServer))
	}
	for _, e := range edit {
		e(h)
	}
	h.start("127.0.0.1:0")
	h.tenant = storetest.NewTenant(t, h.s)
	return h
}

// The method `start` starts the hub's server. After a stop, it listens on the same address again.
func (h *hub) start(addr string) {
	t := h.t
	t.Helper()
	h.view = cache.NewView(time.Now)
	h.hub = federation.NewHub(h.view)
	h.hub.Store, h.hub.Server, h.hub.TTL, h.hub.Now, h.hub.Log = h.s, "hub-1", time.Minute, time.Now, controltest.Quiet
	h.hub.Heartbeat, h.hub.Interval = heartbeat, 50*time.Millisecond
	if h.choosing {
		h.hub.Chooser = choose.New(config.Default(), choose.Default())
	}
	h.hub.Choose, h.hub.RecordRoster, h.hub.Seal = h.choose, h.record, h.seal
	if h.now != nil {
		h.hub.Now = h.now
	}
	h.hub.Alarm = func(_, why string) {
		if to := h.alarm.Load(); to != nil {
			*to <- why
		}
	}
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	h.addr = lis.Addr().String()
	stopView := controltest.Run(t, func(ctx context.Context) error { return h.view.Run(ctx, h.s, func(error) {}) })
	stopHub := controltest.Run(t, h.hub.Run)
	stopServing := h.serve(lis)
	h.stop = func() { stopServing(); stopHub(); stopView() }
}

// The method `serve` serves the hub's calls. The windows are those of a real server.
func (h *hub) serve(lis net.Listener) (stop func()) {
	h.hub.Authenticate = func(ctx context.Context, cluster string) error {
		if in, _ := metadata.FromIncomingContext(ctx); h.caller.Load() && !slices.Equal(in.Get("cluster"), []string{cluster}) {
			return ares.Errorf(ares.Forbidden, "the certificate belongs to another cluster than %s", cluster)
		}
		if h.authenticate != nil {
			return h.authenticate(ctx, cluster)
		}
		return nil
	}
	srv := grpc.NewServer(append(h.options, grpc.StaticStreamWindowSize(64<<10), grpc.StaticConnWindowSize(1<<20))...)
	apipb.RegisterFederationServiceServer(srv, h.hub)
	return controltest.Run(h.t, func(ctx context.Context) error {
		context.AfterFunc(ctx, srv.Stop)
		return srv.Serve(lis)
	})
}

// The method `submit` accepts a job at the hub.
func (h *hub) submit(edit ...func(*ares.Spec)) ares.JobID {
	h.t.Helper()
	spec := storetest.Sleep()
	for _, e := range edit {
		e(&spec)
	}
	ask := storetest.JobOf(h.tenant, spec)
	ask.Job.ID = ares.NewHubJobID(h.tenant.ID, ask.Job.RequestID)
	if got := h.s.Create(h.t.Context(), []store.Creation{ask})[0]; got.Err != nil {
		h.t.Fatal(got.Err)
	}
	return ask.Job.ID
}

func (h *hub) await(id ares.JobID, phase ares.Phase) *cache.Entry {
	h.t.Helper()
	controltest.Await(h.t, h.view, "job "+string(id)+" to be "+string(phase)+" at the hub", func() bool { return controltest.PhaseOf(h.view, id) == phase })
	return h.view.Job(id)
}

// awaitKnown waits until a cluster may get jobs.
func (h *hub) awaitKnown(name string) {
	h.t.Helper()
	controltest.Await(h.t, h.view, "cluster "+name+" to be known outside the hub", func() bool {
		c, err := h.s.Cluster(h.t.Context(), name)
		return err == nil && c.Known
	})
}

func (h *hub) cancel(id ares.JobID) {
	h.t.Helper()
	if _, err := h.s.RequestStop(h.t.Context(), id, ares.Stop{Why: ares.StopCancel, By: "me", At: time.Now()}); err != nil {
		h.t.Fatal(err)
	}
}

// A member is a cluster with one server, one node and an agent.
type member struct {
	t      *testing.T
	name   string
	s      *store.Store
	view   *cache.View
	uplink *federation.Uplink
	wire   *wire
	node   *storetest.Node
	gate   chan struct{} // ranks end when it is closed
	answer atomic.Pointer[answerer]
	// While claimAll is true, the member believes that it would start every job at once.
	claimAll atomic.Bool
	admit    func(context.Context, *ares.Job) error // of the uplink; it may be nil
	sink     func(ares.Batch)                       // sees every batch before the cluster's own parts do; it may be nil
	stop     func()

	nodes     atomic.Int32  // the number of nodes of which the uplink tells the hub
	lateAfter time.Duration // of the uplink, or 0 for its default
	// ahead is how far the clock of the uplink has jumped, in nanoseconds. Each reading lets it jump by as much as `leap`.
	ahead, leap atomic.Int64
	readings    atomic.Int64 // of that clock
}

// newMember registers a cluster at the hub and starts it. The cluster's only node has eight devices.
func newMember(t *testing.T, h *hub, name string, edit ...func(*member)) *member {
	t.Helper()
	m := newIdleMember(t, h, name, edit...)
	controltest.Agent(t, m.s, m.view, m.node, m.gate)
	return m
}

// newIdleMember is newMember without an agent.
func newIdleMember(t *testing.T, h *hub, name string, edit ...func(*member)) *member {
	t.Helper()
	m := &member{t: t, name: name, s: storetest.Embedded(t), gate: make(chan struct{}), wire: &wire{addr: h.addr}}
	for _, e := range edit {
		e(m)
	}
	if isLater(t, laterCluster) {
		m.wire.options = append(m.wire.options, grpc.WithStreamInterceptor(laterClient))
	}
	tenant := h.tenant // with limits of its own
	tenant.Revision, tenant.Limits = 0, ares.NoLimits()
	if err := m.s.RegisterTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	join(t, h, m)
	m.node = storetest.NewNode(t, m.s)
	for i := range m.node.Devices {
		m.node.Devices[i].Model = "H100" // a summary counts devices by their model
	}
	m.node.Open(t, m.s, 5*time.Minute)
	m.start()
	return m
}

// The function `join` writes the records that `ares join` writes.
func join(t *testing.T, h *hub, m *member) {
	t.Helper()
	id, _, err := m.s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hash := []byte("token of " + m.name)
	if _, err = h.s.RegisterCluster(t.Context(), store.Cluster{Name: m.name, TokenHash: hash, TokenExpiresAt: time.Now().Add(time.Hour), RegisteredAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err = h.s.JoinCluster(t.Context(), store.Cluster{Name: m.name, Store: id.Store, TokenHash: hash}, []byte("key"), func() error { return nil }, time.Now()); err != nil {
		t.Fatal(err)
	}
	hubID, _, err := h.s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = m.s.UpdateMembership(t.Context(), func(mb *store.Membership) error {
		mb.Name, mb.HubURL, mb.HubStore = m.name, h.addr, hubID.Store
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The method `start` starts the cluster's server.
func (m *member) start() {
	t := m.t
	t.Helper()
	m.view = cache.NewView(time.Now)
	if m.sink != nil {
		m.view.Feed(m.sink)
	}
	loop := scheduler.NewLoop(m.view, config.Default())
	loop.Store, loop.Server, loop.TTL, loop.Now, loop.Log = m.s, m.name+"-1", time.Minute, time.Now, controltest.Quiet
	loop.Observe, loop.Record, loop.Interval = func(time.Duration) {}, func(scheduler.Decision) {}, 50*time.Millisecond
	m.uplink = federation.NewUplink(m.view)
	m.uplink.Store, m.uplink.Now, m.uplink.Log, m.uplink.Heartbeat = m.s, time.Now, controltest.Quiet, heartbeat
	m.uplink.Dial, m.uplink.Admit, m.uplink.Explain = m.wire.dial, m.admit, loop.Explain
	m.uplink.UseFrom = loop.UseFrom
	m.uplink.LateAfter = cmp.Or(m.lateAfter, m.uplink.LateAfter)
	m.uplink.Boot = func() boottime.Time {
		m.readings.Add(1)
		return boottime.Now().Add(time.Duration(m.ahead.Add(m.leap.Load())))
	}
	m.uplink.DialServer = func(_ context.Context, addr string) (*grpc.ClientConn, error) { return m.wire.dialAt(addr) }
	m.uplink.Answer = func(ctx context.Context, q *apipb.OwnerRead, _ store.Snapshot, send func(*apipb.ReadAnswer) error) error {
		return (*m.answer.Load())(ctx, q, send)
	}
	m.uplink.Summary, m.uplink.SummaryEvery = func() (out []byte) {
		loop.Inspect(func(s *engine.State) {
			var err error
			if out, err = summary.Of(s, &summary.Terms{}, time.Now()).Encode(); err != nil {
				t.Error(err)
			}
		})
		return out
	}, 100*time.Millisecond
	m.uplink.Describe, m.uplink.DescribeEvery = func() []byte {
		data, err := proto.Marshal(&apipb.ClusterDescription{Nodes: m.nodes.Load(), Gpus: []*apipb.ModelCount{{Model: "H100", Count: 8 * m.nodes.Load()}}})
		if err != nil {
			t.Error(err)
		}
		return data
	}, 20*time.Millisecond
	m.uplink.Plan = func(j *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation) {
		if m.claimAll.Load() {
			return ares.Placing{Job: j.ID}, nil
		}
		return loop.Plan(j, p)
	}
	loop.Before, loop.WhileLeading = (&scheduler.RestoreDelay{Store: m.s, Log: controltest.Quiet}).Wait, m.uplink.Run
	stopView := controltest.Run(t, func(ctx context.Context) error { return m.view.Run(ctx, m.s, func(error) {}) })
	stopLoop := controltest.Run(t, loop.Run)
	m.stop = func() { stopLoop(); stopView() }
}

func (m *member) awaitMode(want grant.Mode) {
	m.t.Helper()
	controltest.Await(m.t, m.view, m.name+" to be "+string(want), func() bool {
		mode, _, _ := m.uplink.Mode()
		return mode == want
	})
}

func (m *member) await(id ares.JobID, phase ares.Phase) {
	m.t.Helper()
	controltest.Await(m.t, m.view, "job "+string(id)+" to be "+string(phase)+" in "+m.name, func() bool { return controltest.PhaseOf(m.view, id) == phase })
}

// A wire is the network between a member and the hub. It can be cut.
type wire struct {
	addr    string
	options []grpc.DialOption

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (w *wire) dial(context.Context) (*grpc.ClientConn, error) { return w.dialAt(w.addr) }

func (w *wire) dialAt(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append(w.options, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(w.connect))...)
}

func (w *wire) connect(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut {
		return nil, errors.New("the link is cut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

// The method `set` cuts the link, or repairs it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for _, c := range w.conns {
		if cut {
			_ = c.Close()
		}
	}
	if cut {
		w.conns = nil
	}
}

// TestJobsRunInMembers submits jobs at the hub. Each job must run in exactly one of two clusters, and its end must reach
// the hub.
func TestJobsRunInMembers(t *testing.T) { runInMembers(t, newHub(t)) }

// TestChooser is TestJobsRunInMembers with a hub that chooses clusters by their summaries.
func TestChooser(t *testing.T) { runInMembers(t, newHub(t, func(h *hub) { h.choosing = true })) }

func runInMembers(t *testing.T, h *hub) {
	t.Helper()
	a, b := newMember(t, h, "a"), newMember(t, h, "b")
	close(a.gate)
	close(b.gate)
	var jobs []ares.JobID
	for range 24 {
		jobs = append(jobs, h.submit())
	}
	for _, id := range jobs {
		e := h.await(id, ares.Succeeded)
		owner, other := a, b
		if e.Run.Cluster == "b" {
			owner, other = b, a
		}
		if other.view.Job(id) != nil || controltest.PhaseOf(owner.view, id) != ares.Succeeded {
			t.Errorf("job %s of cluster %s is %q there and %q in the other cluster", id, e.Run.Cluster, controltest.PhaseOf(owner.view, id), controltest.PhaseOf(other.view, id))
		}
		if e.Run.Placed != 1 || len(e.Run.Attempts) != 1 || !e.Run.Free() {
			t.Errorf("the hub's run is %+v", e.Run)
		}
	}
	controltest.CaughtUp(t, h.s, h.view)
	if grants, _, err := h.s.Grants(t.Context()); err != nil || len(grants) > 0 {
		t.Errorf("grants are left: %+v, %v", grants, err)
	}
}
