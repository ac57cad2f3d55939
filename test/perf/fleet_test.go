package perf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// fleet is many simulated agents of one server. Each has what a real one has:
// a connection for its session, seats and renewals, and one for files.
type fleet struct {
	plant   *plant
	ttl     time.Duration
	agents  []*mockAgent
	opened  atomic.Int64  // sessions
	fenced  atomic.Int64  // renewals refused because the session was over
	failed  atomic.Int64  // renewals that failed otherwise
	retried atomic.Int64  // sessions that were not opened at the first try
	ended   atomic.Int64  // sessions whose end the store has seen
	renewed chan sample1  // each renewal's latency
	watched chan struct{} // closes when the store's watch ends
}

type sample1 struct {
	at   time.Time
	took time.Duration
}

type mockAgent struct {
	fleet    *fleet
	name     string
	instance string
	index    int
}

// newFleet prepares n agents and watches the store for sessions that end.
func newFleet(b *testing.B, p *plant, n int, ttl time.Duration) *fleet {
	f := &fleet{plant: p, ttl: ttl, renewed: make(chan sample1, 1<<20), watched: make(chan struct{})}
	for i := range n {
		f.agents = append(f.agents, &mockAgent{
			fleet: f, index: i, name: fmt.Sprintf("node-%04d", i), instance: fmt.Sprintf("perf-instance-%08d", i),
		})
	}
	s, err := store.Open(b.Context(), store.Config{Endpoints: []string{p.endpoint}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	go func() {
		defer close(f.watched)
		_ = s.Watch(ctx, func(batch ares.Batch) error {
			for i := range batch.Events {
				if batch.Events[i].Gone.Kind == ares.KindSession {
					f.ended.Add(1)
				}
			}
			return nil
		})
	}()
	b.Cleanup(func() {
		stop()
		<-f.watched
		_ = s.Close()
	})
	return f
}

// live runs agents until ctx ends, and calls opened when all have a session.
// Agents that live again take their sessions over, as a real one does that was
// cut off.
func (f *fleet) live(ctx context.Context, agents []*mockAgent, opened func()) *sync.WaitGroup {
	var all, first sync.WaitGroup
	for _, a := range agents {
		first.Add(1)
		all.Go(func() { a.run(ctx, sync.OnceFunc(first.Done)) })
	}
	all.Go(func() {
		first.Wait()
		opened()
	})
	return &all
}

func (a *mockAgent) run(ctx context.Context, opened func()) {
	defer opened() // nobody waits for one that was told to end
	for ctx.Err() == nil {
		if err := a.connect(ctx, opened); err != nil && ctx.Err() == nil {
			a.fleet.retried.Add(1)
		}
		if !pause(ctx, time.Second/2+rand.N(time.Second)) {
			return
		}
	}
}

// bearer sends the node token with every call.
type bearer string

func (t bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

func dial(addr, token string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
}

// connect makes the agent's two connections and serves one session over them. A
// server that is too busy to open one is asked again.
func (a *mockAgent) connect(ctx context.Context, opened func()) error {
	control, err := dial(a.fleet.plant.at.GRPC, a.fleet.plant.agent)
	if err != nil {
		return err
	}
	defer control.Close()
	bulk, err := dial(a.fleet.plant.at.GRPC, a.fleet.plant.agent)
	if err != nil {
		return err
	}
	defer bulk.Close()
	for {
		err := a.serve(ctx, apipb.NewAgentServiceClient(control), apipb.NewAgentServiceClient(bulk), opened)
		if ares.CodeOf(apipb.FromStatus(err)) != ares.Exhausted {
			return err
		}
		a.fleet.retried.Add(1)
		if !pause(ctx, time.Second/2+rand.N(time.Second)) {
			return ctx.Err()
		}
	}
}

// serve is one session.
func (a *mockAgent) serve(ctx context.Context, c, bulk apipb.AgentServiceClient, opened func()) error {
	opening, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := c.OpenSession(opening, &apipb.OpenSessionRequest{Node: a.node(), Instance: a.instance})
	if err != nil {
		return err
	}
	a.fleet.opened.Add(1)
	opened()
	ref := &apipb.SessionRef{NodeId: a.name, Session: resp.GetSession()}
	files, err := bulk.ServeFiles(ctx)
	if err != nil {
		return err
	}
	if err := files.Send(&apipb.ServeFilesRequest{Ref: ref}); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() {
		defer end()
		a.follow(ctx, c, ref)
	})
	return a.renew(ctx, c, ref)
}

func (a *mockAgent) node() *apipb.NodeInfo {
	n := &apipb.NodeInfo{NodeId: a.name, Address: "127.0.0.1", CpuCores: 64, MemoryMb: 1 << 19, Mock: true, Version: "perf"}
	for i := range 8 {
		n.Devices = append(n.Devices, &apipb.DeviceInfo{
			DeviceId: fmt.Sprintf("%s-gpu-%d", a.name, i), Index: int32(i), Type: "gpu", Model: "H100", MemoryMb: 81920, Healthy: true,
		})
	}
	return n
}

// follow reads the seats that are sent, and does nothing with them.
func (a *mockAgent) follow(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) {
	stream, err := c.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: ref})
	for err == nil {
		_, err = stream.Recv()
	}
}

// renew extends the session every eighth of its TTL, as a real agent does. The
// first renewals are spread, for real agents were not started together.
func (a *mockAgent) renew(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	every := a.fleet.ttl / 8
	if !pause(ctx, every*time.Duration(a.index)/time.Duration(len(a.fleet.agents))) {
		return ctx.Err()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, every)
		sent := time.Now()
		_, err := c.RenewSession(call, &apipb.RenewSessionRequest{Ref: ref})
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ares.CodeOf(apipb.FromStatus(err)) == ares.Fenced:
			a.fleet.fenced.Add(1)
			return err
		case err != nil:
			a.fleet.failed.Add(1)
			return err
		}
		a.fleet.renewed <- sample1{sent, time.Since(sent)}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// latencies takes what was renewed so far, sorted for quantiles.
func (f *fleet) latencies() []time.Duration {
	var out []time.Duration
	for {
		select {
		case s := <-f.renewed:
			out = append(out, s.took)
		default:
			return out
		}
	}
}

// pause waits, and says whether it was not cut short.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
