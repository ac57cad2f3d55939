package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/live"
)

var (
	floodTTL    = rounds.Sized(20*time.Second, 12*time.Second)
	floodAgents = rounds.Sized(50, 2)
	floodFor    = rounds.Sized(25*time.Second, time.Second)
	floodRate   = rounds.Sized(10_000, 100) // calls per second
)

// TestMain sends the flood of calls if an environment variable requests it. The
// flood needs its own process. If the flood ran in the same process as the
// agents, the benchmark would measure the flood's own delays.
func TestMain(m *testing.M) {
	if order := os.Getenv(floodOrder); order != "" {
		if err := pourOut(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// BenchmarkFlood sends one server 10,000 calls per second over REST and gRPC.
// Half of the calls list jobs, and half submit jobs. During the flood, session
// renewals must not slow down, and the server's memory must stay bounded. Every
// acknowledged job must be in the store.
func BenchmarkFlood(b *testing.B) {
	p := startServer(b, fmt.Sprintf("sessions: {ttl_seconds: %d}", int(floodTTL.Seconds())))
	f := newFleet(b, p, floodAgents, floodTTL)
	ctx, end := context.WithCancel(b.Context())
	all := make(chan struct{})
	running := f.live(ctx, f.agents, func() { close(all) })
	<-all
	var calm, flooded usage
	pause.For(ctx, floodTTL/8)
	f.latencies()
	calm = p.during(func() { pause.For(ctx, floodTTL/2) })
	before := f.latencies()
	var got flood
	flooded = p.during(func() { got = runFlood(b, p) })
	during := f.latencies()
	begin := time.Now()
	live.Await(b, 30*time.Second, "everything to answer after the flood", func() (bool, string) {
		err := p.answersAll(b)
		return err == nil, fmt.Sprint(err)
	})
	back := time.Since(begin)
	pause.For(ctx, floodTTL/8+time.Second)
	after := f.latencies()
	end()
	running.Wait()
	lost, fenced, failed := f.ended.Load(), f.fenced.Load(), f.failed.Load()
	if lost+fenced+failed > 0 {
		b.Errorf("%d sessions ended, %d renewals were refused and %d failed", lost, fenced, failed)
	}
	missing, stored := p.missing(b, got.Acknowledged)
	if missing > 0 {
		b.Errorf("%d acknowledged submissions of %d are not in the store", missing, len(got.Acknowledged))
	}
	got.print(b)
	rows := [][]string{{"renewals", "p50", "p99", "max", "count", "server CPU, cores", "server memory, MB", "etcd CPU, cores", "etcd memory, MB"}}
	for _, r := range []struct {
		name string
		took []time.Duration
		use  usage
	}{{"before", before, calm}, {"in the flood", during, flooded}} {
		p50, p99 := quantiles(r.took)
		rows = append(rows, []string{
			r.name, short(p50), short(p99), short(longest(r.took)), fmt.Sprint(len(r.took)),
			fmt.Sprintf("%.2f", r.use.server), fmt.Sprintf("%.0f", r.use.serverMB), fmt.Sprintf("%.2f", r.use.etcd), fmt.Sprintf("%.0f", r.use.etcdMB),
		})
	}
	p50, p99 := quantiles(after)
	rows = append(rows, []string{"after it", short(p50), short(p99), short(longest(after)), fmt.Sprint(len(after)), "", "", "", ""})
	table(b, fmt.Sprintf("Renewals of %d agents beside the flood; an eighth of the TTL is %s", floodAgents, floodTTL/8), rows)
	table(b, "The server", [][]string{
		{"", "value"},
		{"peak memory", fmt.Sprintf("%.0f MB", flooded.serverPeakMB)},
		{"jobs in the store", fmt.Sprint(stored)},
		{"acknowledged, all there", fmt.Sprint(len(got.Acknowledged) - missing)},
		{"sessions lost", fmt.Sprint(lost + fenced)},
		{"list, submit, get and renew answer after", short(back)},
	})
}

// runFlood runs the flood in another process and returns its results.
func runFlood(b *testing.B, p *testServer) flood {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	answers := p.Path("flood.json")
	order, err := json.Marshal(order{
		HTTP: p.server.At.HTTP, GRPC: p.server.At.GRPC, Token: p.admin, Rate: floodRate, Seconds: int(floodFor.Seconds()), Answers: answers,
	})
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), floodOrder+"="+string(order))
	if out, runErr := cmd.CombinedOutput(); runErr != nil {
		b.Fatalf("the flood: %v\n%s", runErr, out)
	}
	data, err := os.ReadFile(answers)
	if err != nil {
		b.Fatal(err)
	}
	var got flood
	if err = json.Unmarshal(data, &got); err != nil {
		b.Fatal(err)
	}
	return got
}

// answersAll makes one call of each kind, over new connections.
func (p *testServer) answersAll(b *testing.B) error {
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
	defer cancel()
	id, err := submitOnce(ctx, p, fmt.Sprint("after-", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	for _, path := range []string{"/api/v1/jobs", "/api/v1/jobs/" + id} {
		if status, body, err := p.server.GetAs(p.admin, path); err != nil || status != http.StatusOK {
			return fmt.Errorf("%s answered %d: %s: %w", path, status, body, err)
		}
	}
	return nil
}

// This method returns how many of the given jobs are missing from the store. It
// also returns how many jobs are stored.
func (p *testServer) missing(b *testing.B, jobs []string) (missing, stored int) {
	s, err := store.Open(b.Context(), store.Config{Endpoints: p.Endpoints(), Timeout: 20 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	there := map[string]bool{}
	err = s.Dump(b.Context(), "jobs/", func(r store.Raw) error {
		there[r.Key[strings.LastIndexByte(r.Key, '/')+1:]] = true
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, id := range jobs {
		if !there[id] {
			missing++
		}
	}
	return missing, len(there)
}
