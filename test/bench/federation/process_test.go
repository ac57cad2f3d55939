package federation

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// A site is a cluster of one server with simulated agents, which may be a member of a hub.
type site struct {
	b    *testing.B
	name string
	c    *cluster.Cluster
	api  *client.Client

	mu      sync.Mutex
	started map[string]chan time.Time // by job: gets the time at which its agent has claimed it
	ends    map[string]chan struct{}  // by job: its rank ends when the channel is closed
	runs    int                       // seats that were claimed
	all     bool                      // every rank ends at once
}

// newSite starts a cluster with some nodes of eight devices. If `all` is true, every rank ends at once.
func newSite(b *testing.B, name string, nodes int, all bool) *site {
	b.Helper()
	s := &site{b: b, name: name, c: cluster.Start(b, cluster.Servers(1)), started: map[string]chan time.Time{}, ends: map[string]chan struct{}{}, all: all}
	s.api = s.c.Client()
	conn, err := grpc.NewClient(s.c.Servers[0].At.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(s.c.Servers[0].File(server.NodeTokenFile))))
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var agents sync.WaitGroup
	b.Cleanup(func() {
		stop()
		agents.Wait()
		_ = conn.Close()
	})
	for i := range nodes {
		a := &cluster.FakeAgent{Name: fmt.Sprintf("%s-%03d", name, i), Instance: fmt.Sprintf("%s-instance-%03d", name, i), Delay: time.Second, Every: 5 * time.Second, Seat: s.seat}
		agents.Go(func() {
			for ctx.Err() == nil {
				_ = a.Serve(ctx, apipb.NewAgentServiceClient(conn), nil) // it ended because of a busy server, or because the benchmark ended
				pause.For(ctx, 100*time.Millisecond)
			}
		})
	}
	live.Await(b, cluster.Patience, "the nodes of "+name, func() (bool, string) {
		got, err := s.api.Nodes(ctx)
		if err != nil || len(got.GetNodes()) < nodes {
			return false, fmt.Sprint(len(got.GetNodes()), err)
		}
		offline := slices.ContainsFunc(got.GetNodes(), func(n *apipb.Node) bool { return n.GetState() != "online" })
		return !offline, ""
	})
	return s
}

// bearer adds the node token to every call.
type bearer string

func (t bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// The method `seat` runs one rank.
func (s *site) seat(ctx context.Context, calls apipb.AgentServiceClient, ref *apipb.SessionRef, o *apipb.SeatOrder) {
	id := o.GetSeat().GetJobId()
	again(ctx, func() error {
		_, err := calls.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: ref, Seat: o.GetSeat()})
		return err
	})
	started, end := s.of(id)
	select {
	case started <- time.Now():
	default:
	}
	s.mu.Lock()
	s.runs++
	s.mu.Unlock()
	if !s.all {
		select {
		case <-end:
		case <-ctx.Done():
			return
		}
	}
	again(ctx, func() error {
		_, err := calls.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: ref, Seat: o.GetSeat(), Result: &apipb.RankResult{Outcome: "succeeded"}})
		return err
	})
	again(ctx, func() error {
		_, err := calls.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: ref, Seat: o.GetSeat()})
		return err
	})
}

// The function `again` repeats a call of an agent until it succeeds. A session that has ended takes its calls with it.
func again(ctx context.Context, call func() error) {
	for ctx.Err() == nil && call() != nil {
		pause.For(ctx, 50*time.Millisecond)
	}
}

func (s *site) of(id string) (started chan time.Time, end chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started[id] == nil {
		s.started[id], s.ends[id] = make(chan time.Time, 1), make(chan struct{})
	}
	return s.started[id], s.ends[id]
}

// The method `end` lets a job succeed.
func (s *site) end(id string) {
	_, end := s.of(id)
	close(end)
}

func (s *site) claimed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

// awaitStart returns when a job was started here.
func (s *site) awaitStart(id string) time.Time {
	s.b.Helper()
	started, _ := s.of(id)
	select {
	case at := <-started:
		return at
	case <-time.After(cluster.Patience):
		s.b.Fatalf("job %s does not start in %s", id, s.name)
		return time.Time{}
	}
}

// The function `submit` submits one job and returns its ID.
func submit(b *testing.B, to *client.Client, spec *apipb.JobSpec) string {
	b.Helper()
	spec.Command = []string{"python", "train.py"}
	made, err := to.Submit(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	return made.GetJobId()
}

// The function `command` runs a command on the machine of a server.
func command(b *testing.B, c *cluster.Cluster, args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), c.Ares, append([]string{"--data-dir", c.Servers[0].Dir}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("ares %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}

// newHub starts a hub without members.
func newHub(b *testing.B) *cluster.Cluster {
	b.Helper()
	return cluster.Start(b, cluster.Servers(1), cluster.TLS(), cluster.Config("role: global\n"))
}

// register returns a token with which a site joins a hub.
func register(b *testing.B, hub *cluster.Cluster, s *site) string {
	b.Helper()
	return command(b, hub, "cluster", "register", s.name)
}

// The method `join` joins a hub over a link and waits until the hub answers.
func (s *site) join(hub *cluster.Cluster, over *link) {
	s.b.Helper()
	command(s.b, s.c, "join", "--global", over.addr, "--token", register(s.b, hub, s), "--federated", "default")
	s.awaitMode("federated")
}

// awaitMode waits until the cluster says that it reaches its hub, or that it does not.
func (s *site) awaitMode(want string) {
	s.b.Helper()
	live.Await(s.b, cluster.Patience, s.name+" to be "+want, func() (bool, string) {
		m, err := s.api.Membership(s.b.Context())
		return m.GetMode() == want, fmt.Sprint(m.GetMode(), err)
	})
}

// p50, p99 and longest of durations, in the given unit.
func spread(took []time.Duration, unit time.Duration) []string {
	took = slices.Sorted(slices.Values(took))
	text := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(unit)) }
	return []string{text(took[len(took)/2]), text(took[len(took)*99/100]), text(took[len(took)-1])}
}
