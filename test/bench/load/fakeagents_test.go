package load

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
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/cluster"
)

// A `fleet` is a set of simulated agents that use one server. Like a real agent,
// each simulated agent has two connections. One is for its session, seats and
// renewals, and the other is for files.
type fleet struct {
	on      *testServer
	ttl     time.Duration
	agents  []*mockAgent
	opened  atomic.Int64       // sessions
	fenced  atomic.Int64       // renewals rejected because the session had ended
	failed  atomic.Int64       // renewals that failed otherwise
	retried atomic.Int64       // sessions that needed more than one attempt to open
	ended   atomic.Int64       // sessions that the store reported as ended
	renewed chan time.Duration // each renewal's latency
	watched chan struct{}      // closes when the store's watch ends
}

type mockAgent struct {
	fleet    *fleet
	name     string
	instance string
	index    int
}

// newFleet prepares n agents. It also watches the store for sessions that end.
func newFleet(b *testing.B, p *testServer, n int, ttl time.Duration) *fleet {
	f := &fleet{on: p, ttl: ttl, renewed: make(chan time.Duration, 1<<20), watched: make(chan struct{})}
	for i := range n {
		f.agents = append(f.agents, &mockAgent{
			fleet: f, index: i, name: fmt.Sprintf("node-%04d", i), instance: fmt.Sprintf("load-instance-%08d", i),
		})
	}
	s, err := store.Open(b.Context(), store.Config{Endpoints: p.Endpoints()})
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

// This method runs the agents until ctx ends. When all agents have a session, it
// calls the function `opened`. Agents that are started again resume their old
// sessions, as a real agent does after its connection was cut.
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
	defer opened() // do not wait for an agent that was told to stop
	for ctx.Err() == nil {
		if err := a.connect(ctx, opened); err != nil && ctx.Err() == nil {
			a.fleet.retried.Add(1)
		}
		if !pause.For(ctx, time.Second/2+rand.N(time.Second)) {
			return
		}
	}
}

// This type adds the node token to every call.
type bearer string

func (t bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

func dial(addr, token string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(token)))
}

// This method makes the agent's two connections and serves one session over
// them. The method retries when the server is too busy to open a session.
func (a *mockAgent) connect(ctx context.Context, opened func()) error {
	control, err := dial(a.fleet.on.server.At.GRPC, a.fleet.on.agent)
	if err != nil {
		return err
	}
	defer control.Close()
	bulk, err := dial(a.fleet.on.server.At.GRPC, a.fleet.on.agent)
	if err != nil {
		return err
	}
	defer bulk.Close()
	for {
		err := a.session(opened).Serve(ctx, apipb.NewAgentServiceClient(control), apipb.NewAgentServiceClient(bulk))
		if ares.CodeOf(apipb.FromStatus(err)) != ares.Exhausted {
			return err
		}
		a.fleet.retried.Add(1)
		if !pause.For(ctx, time.Second/2+rand.N(time.Second)) {
			return ctx.Err()
		}
	}
}

// This method returns the agent's session settings. The agent renews its
// session eight times per TTL, as a real agent does. The first renewals are
// spread out, because real agents do not all start at the same time.
func (a *mockAgent) session(opened func()) *cluster.FakeAgent {
	f := a.fleet
	every := f.ttl / 8
	return &cluster.FakeAgent{
		Name: a.name, Instance: a.instance, Every: every, Delay: every * time.Duration(a.index) / time.Duration(len(f.agents)),
		Opened: func() {
			f.opened.Add(1)
			opened()
		},
		Renewed: func(sent time.Time, err error) error {
			switch {
			case ares.CodeOf(apipb.FromStatus(err)) == ares.Fenced:
				f.fenced.Add(1)
			case err != nil:
				f.failed.Add(1)
			default:
				f.renewed <- time.Since(sent)
			}
			return err
		},
	}
}

// The method `latencies` returns the renewal latencies measured so far, sorted
// for quantiles.
func (f *fleet) latencies() []time.Duration {
	var out []time.Duration
	for {
		select {
		case s := <-f.renewed:
			out = append(out, s)
		default:
			return out
		}
	}
}
