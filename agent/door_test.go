package agent

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ares-agent-")
	if err != nil {
		panic(err)
	}
	bin := filepath.Join(dir, "ares-supervisor")
	if out, buildErr := exec.Command("go", "build", "-o", bin, "github.com/ares-scheduler/ares/cmd/ares-supervisor").CombinedOutput(); buildErr != nil {
		panic(string(out))
	}
	if err = os.Setenv("ARES_SUPERVISOR", bin); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// The type `call` is one call of an agent to its server.
type call struct {
	verb    string // claim, finish, release, decline, clean or checkpoint
	session int64
	fence   int64
	outcome string  // outcome of a finish
	held    []int64 // held fences of a clean report
	age     int64   // age of a checkpoint, in milliseconds
}

// The type `door` is a fake server for an agent. The fake server knows nothing about jobs, because each test
// sets the server's orders and answers.
type door struct {
	apipb.UnimplementedAgentServiceServer

	addr string
	ttl  int32 // seconds

	mu      sync.Mutex
	session int64
	orders  map[int64]*apipb.SeatOrder // by fence
	changed chan struct{}              // closed when orders change
	held    bool                       // no list of seats is sent, so the agent keeps the last one
	calls   []call
	hooks   map[string]func() error // functions that are called before the answer, by verb
}

func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{addr: l.Addr().String(), ttl: 60, session: 10, orders: map[int64]*apipb.SeatOrder{}, changed: make(chan struct{}), hooks: map[string]func() error{}}
	s := grpc.NewServer()
	apipb.RegisterAgentServiceServer(s, d)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) }) // ends with the test
	t.Cleanup(func() { s.Stop(); wg.Wait() })
	return d
}

// The method `on` sets a function that the fake server calls before it answers calls with the given verb.
func (d *door) on(verb string, hook func() error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hooks[verb] = hook
}

// The method `order` sends the agent a new or changed seat.
func (d *door) order(o *apipb.SeatOrder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orders[o.Seat.Fence] = o
	close(d.changed)
	d.changed = make(chan struct{})
}

// The method `holdLists` lets the agent keep the list of seats that it has.
func (d *door) holdLists() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = true
}

// The method `said` returns the agent's calls with the given verbs, in the order in which they arrived.
func (d *door) said(verbs ...string) []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []call
	for _, c := range d.calls {
		if slices.Contains(verbs, c.verb) {
			out = append(out, c)
		}
	}
	return out
}

func (d *door) heed(c call) error {
	d.mu.Lock()
	d.calls = append(d.calls, c)
	hook := d.hooks[c.verb]
	d.mu.Unlock()
	if hook == nil {
		return nil
	}
	return apipb.ToStatus(hook())
}

func (d *door) OpenSession(context.Context, *apipb.OpenSessionRequest) (*apipb.OpenSessionResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session++
	return &apipb.OpenSessionResponse{Session: d.session, TtlSeconds: d.ttl}, nil
}

func (d *door) RenewSession(_ context.Context, r *apipb.RenewSessionRequest) (*apipb.RenewSessionResponse, error) {
	return &apipb.RenewSessionResponse{}, d.heed(call{verb: "renew", session: r.Ref.Session})
}

func (d *door) UpdateNode(context.Context, *apipb.UpdateNodeRequest) (*apipb.UpdateNodeResponse, error) {
	return &apipb.UpdateNodeResponse{}, nil
}

func (d *door) CloseSession(context.Context, *apipb.CloseSessionRequest) (*apipb.CloseSessionResponse, error) {
	return &apipb.CloseSessionResponse{}, nil
}

func (d *door) ClaimSeat(_ context.Context, r *apipb.ClaimSeatRequest) (*apipb.ClaimSeatResponse, error) {
	return &apipb.ClaimSeatResponse{}, d.step(call{verb: "claim", session: r.Ref.Session, fence: r.Seat.Fence}, ares.SeatClaimed, ares.SeatPlaced, ares.SeatClaimed)
}

func (d *door) FinishSeat(_ context.Context, r *apipb.FinishSeatRequest) (*apipb.FinishSeatResponse, error) {
	c := call{verb: "finish", session: r.Ref.Session, fence: r.Seat.Fence, outcome: r.Result.Outcome}
	return &apipb.FinishSeatResponse{}, d.step(c, ares.SeatFinished, ares.SeatPlaced, ares.SeatClaimed)
}

func (d *door) DeclineSeat(_ context.Context, r *apipb.DeclineSeatRequest) (*apipb.DeclineSeatResponse, error) {
	return &apipb.DeclineSeatResponse{}, d.step(call{verb: "decline", session: r.Ref.Session, fence: r.Seat.Fence}, ares.SeatReleased, ares.SeatPlaced)
}

func (d *door) ReleaseSeat(_ context.Context, r *apipb.ReleaseSeatRequest) (*apipb.ReleaseSeatResponse, error) {
	return &apipb.ReleaseSeatResponse{}, d.step(call{verb: "release", session: r.Ref.Session, fence: r.Seat.Fence}, ares.SeatReleased, ares.SeatFinished)
}

// The method `step` changes the state of a seat as the store would, or rejects the change. Once a seat is free, the fake
// server no longer sends it.
func (d *door) step(c call, to ares.SeatState, from ...ares.SeatState) error {
	if err := d.heed(c); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.orders[c.fence]
	if o == nil || !slices.Contains(from, ares.SeatState(o.State)) {
		return apipb.ToStatus(ares.Errorf(ares.Fenced, "%s of a seat that is %s", c.verb, o.GetState()))
	}
	next := proto.CloneOf(o)
	next.State, d.orders[c.fence] = string(to), next
	if to.Free() {
		delete(d.orders, c.fence)
	}
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

func (d *door) ReportClean(_ context.Context, r *apipb.ReportCleanRequest) (*apipb.ReportCleanResponse, error) {
	return &apipb.ReportCleanResponse{}, d.heed(call{verb: "clean", session: r.Ref.Session, held: r.Held})
}

func (d *door) ReportCheckpoint(_ context.Context, r *apipb.ReportCheckpointRequest) (*apipb.ReportCheckpointResponse, error) {
	return &apipb.ReportCheckpointResponse{}, d.heed(call{verb: "checkpoint", session: r.Ref.Session, fence: r.Seat.Fence, age: r.AgeMs})
}

func (d *door) WatchSeats(_ *apipb.WatchSeatsRequest, stream apipb.AgentService_WatchSeatsServer) error {
	for {
		d.mu.Lock()
		resp := &apipb.WatchSeatsResponse{Revision: 1 << 40, Seats: slices.Collect(maps.Values(d.orders))}
		changed, held := d.changed, d.held
		d.mu.Unlock()
		if !held {
			if err := stream.Send(resp); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (d *door) ServeFiles(stream apipb.AgentService_ServeFilesServer) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}

// seatOf returns the order for a seat that runs a script.
func seatOf(fence int64, state ares.SeatState, lostAfter time.Duration, script string) *apipb.SeatOrder {
	spec := ares.Spec{Command: []string{"sh", "-c", script}, LostAfterSeconds: int(lostAfter / time.Second)}.WithDefaults()
	return &apipb.SeatOrder{
		Seat: &apipb.SeatRef{JobId: "job-x", Fence: fence}, Attempt: 1, State: string(state), Current: true, WorldSize: 1,
		LostAfterSeconds: int32(spec.LostAfterSeconds), Spec: apipb.NewJobSpec(&spec), Trusted: true,
	}
}

// The type `hands` is a running agent with its state directory and its log.
type hands struct {
	*Agent

	dir  string
	stop func() // acts like a killed agent, so its processes stay alive
	mu   sync.Mutex
	log  bytes.Buffer
}

func (h *hands) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(b)
}

func (h *hands) says(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(h.log.String(), text)
}

// newHands starts an agent whose jobs run as the agent's own user, so that they can write into a test's directories.
func newHands(t *testing.T, d *door, dir string) *hands {
	t.Helper()
	together := DefaultIsolation()
	together.Mode = IsolateNone
	return newHandsApart(t, d, dir, together)
}

func newHandsApart(t *testing.T, d *door, dir string, apart Isolation) *hands {
	t.Helper()
	h := &hands{dir: dir}
	a, err := New(t.Context(), Config{
		Node: "n", Servers: []string{d.addr}, Token: "t", Dir: dir, Mock: "v100-4", Isolation: apart, Log: slog.New(slog.NewTextHandler(h, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Agent = a
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	h.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(func() {
		h.stop()
		if t.Failed() {
			t.Logf("%s", h.log.String())
		}
		killLeftovers(t, dir)
	})
	eventually(t, "a session", func() bool { return a.session.Load() != 0 })
	return h
}

// killLeftovers ends all processes that agents left running from a state directory, and removes their cgroup.
func killLeftovers(t *testing.T, dir string) {
	t.Helper()
	r, err := run.Open(filepath.Join(dir, "seats"), os.Getenv("ARES_SUPERVISOR"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	found, err := r.Find(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if alive := r.EnsureDead(context.Background(), f.Key); alive != nil {
			t.Error(alive)
		}
	}
	id, err := os.ReadFile(filepath.Join(dir, "seats", "id"))
	if err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && e.Name() == strings.TrimSpace(string(id)) {
			_ = os.Remove(path) // the cgroup is empty, because every seat has ended
			return fs.SkipDir
		}
		return nil
	})
}

// The method `spawned` reports whether the agent has begun to start a process for any seat.
func (h *hands) spawned() bool {
	names, _ := filepath.Glob(filepath.Join(h.dir, "seats", "seats", "*")) // the pattern is valid
	return len(names) > 0
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); <-tick.C { // only a failing test waits this long
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// pidIn waits for the PID that a job writes to a file.
func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	eventually(t, path, func() bool {
		b, _ := os.ReadFile(path)
		if !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}

func lives(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return f[0] != "Z" && f[0] != "X"
}
