package federation

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

var (
	members = rounds.Sized(100, 4)
	nodes   = rounds.Sized(100, 10)
	waiting = rounds.Sized(10_000, 60)
	changes = rounds.Sized(1000, 10) // changes of members, each followed by decisions
	idle    = rounds.Sized(30*time.Second, time.Second)
)

// A simHub is a hub of one process, and its simulated members.
type simHub struct {
	b       *testing.B
	c       *cluster.Cluster
	members []*simMember
	traffic traffic
	bound   atomic.Int64 // claims that have won
	lost    atomic.Int64 // claims that have not
}

// BenchmarkHub starts a hub as a process and lets simulated members join it, each over a connection of its own with mutual
// TLS. The members are full while jobs are submitted. Then nothing happens for a while, then one member after the other has
// free devices, and at last all of them are empty.
func BenchmarkHub(b *testing.B) {
	for range b.N {
		h := startHub(b)
		h.join()
		first := h.now()
		h.submit()
		submitted := h.now()
		pause.For(b.Context(), settle) // summaries of the submissions' time arrive
		before, bytes := h.now(), h.traffic.total()
		pause.For(b.Context(), idle)
		quiet := h.now()
		sent := h.traffic.total() - bytes
		h.free()
		changed := h.now()
		rows := [][]string{{"figure", "measured", "aim"}}
		rows = append(rows,
			[]string{"time of a decision, p50", changed.decision(quiet, 0.5), ""},
			[]string{"time of a decision, p99", changed.decision(quiet, 0.99), "5 ms"},
			[]string{"decisions measured", fmt.Sprint(changed.count - quiet.count), ""},
			[]string{"largest summary of these members", fmt.Sprintf("%d bytes", h.largest()), "32,768 bytes"},
			[]string{"largest summary possible", fmt.Sprintf("%d bytes", len(fullSummary(b))), "32,768 bytes"},
			[]string{"traffic of all uplinks while nothing happens", fmt.Sprintf("%.2f Mbit/s", float64(8*sent)/1e6/idle.Seconds()), "2 Mbit/s"},
			[]string{"processor time of the hub while nothing happens", fmt.Sprintf("%.1f %% of one core", 100*(quiet.cpu-before.cpu).Seconds()/idle.Seconds()), ""},
		)
		rate := h.claimAll()
		claimed := h.now()
		rows = append(rows,
			[]string{"claims that win, with all members empty", fmt.Sprintf("%.0f/s", rate), "1,000/s"},
			[]string{"claims that lose, for each that wins", fmt.Sprintf("%.2f", float64(h.lost.Load())/float64(max(h.bound.Load(), 1))), ""},
			[]string{"processor time of the hub for a claim", fmt.Sprintf("%.2f ms", (claimed.cpu-changed.cpu).Seconds()*1000/float64(max(waiting, 1))), ""},
			[]string{"memory of the hub: joined, all waiting, all claimed", fmt.Sprintf("%d, %d, %d MiB", first.memory>>20, submitted.memory>>20, claimed.memory>>20), ""},
			[]string{"peak memory of the hub", fmt.Sprintf("%d MiB", claimed.peak>>20), "512 MiB"},
		)
		title := fmt.Sprintf("A hub with %d members of %d nodes over mutual TLS, %d waiting jobs", members, nodes, waiting)
		if err := rounds.Table(os.Stdout, title, rows); err != nil {
			b.Fatal(err)
		}
	}
}

// settle is the time after which the hub has nothing left to do.
var settle = rounds.Sized(5*time.Second, 1500*time.Millisecond)

func startHub(b *testing.B) *simHub {
	b.Helper()
	return &simHub{b: b, c: cluster.Start(b, cluster.Servers(1), cluster.TLS(), cluster.Config("role: global\n"))}
}

// The method `join` registers and joins the members, and opens their sessions.
func (h *simHub) join() {
	h.b.Helper()
	admin := h.c.Client()
	ctx, stop := context.WithCancel(h.b.Context())
	var all sync.WaitGroup
	h.b.Cleanup(func() { stop(); all.Wait() })
	for i := range members {
		m := &simMember{hub: h, index: i, name: fmt.Sprintf("c%03d", i), free: make([]int, nodes), changed: make(chan struct{}, 1), offers: map[string]simOffer{}, asks: map[string]int{}}
		made, err := admin.RegisterCluster(ctx, &apipb.RegisterClusterRequest{Name: m.name, Region: regions[i%len(regions)]})
		if err != nil {
			h.b.Fatal(err)
		}
		if err = m.join(ctx, made.GetToken()); err != nil {
			h.b.Fatal(err)
		}
		h.members = append(h.members, m)
		all.Go(func() {
			if err := m.serve(ctx); err != nil && ctx.Err() == nil {
				h.b.Errorf("member %s: %v", m.name, err)
			}
		})
	}
	for _, m := range h.members {
		live.Await(h.b, cluster.Patience, m.name+" to have a session", func() (bool, string) { return m.open.Load(), "" })
	}
}

// The method `submit` submits jobs of 20 kinds by ten users.
func (h *simHub) submit() {
	h.b.Helper()
	var specs []*apipb.JobSpec
	for i := range waiting {
		specs = append(specs, &apipb.JobSpec{
			Name: fmt.Sprintf("job-%d", i), Command: []string{"python", "train.py"}, GpuCount: []int32{1, 1, 1, 2, 4}[i%5], GpuModel: []string{"", "", "H100", "T4"}[i/5%4],
		})
	}
	got, err := h.c.Client().SubmitBatch(h.b.Context(), specs)
	if err != nil || int(got.GetAccepted()) != waiting {
		h.b.Fatalf("%d of %d jobs were accepted: %v", got.GetAccepted(), waiting, err)
	}
}

// The method `free` lets some devices of one member after the other become free. The jobs that the member claims take them.
func (h *simHub) free() {
	for i := range changes {
		m := h.members[i*7%len(h.members)]
		m.release(i)
		pause.For(h.b.Context(), 20*time.Millisecond)
	}
	pause.For(h.b.Context(), settle)
	if h.bound.Load() == 0 {
		h.b.Fatal("no claim has won")
	}
}

// claimAll lets all members be empty, and returns how many claims win in a second until every job is bound.
func (h *simHub) claimAll() float64 {
	left := int64(waiting) - h.bound.Load()
	began := time.Now()
	for _, m := range h.members {
		m.empty()
	}
	live.AwaitCount(h.b, cluster.Patience, "jobs that are bound", waiting, func() int { return int(h.bound.Load()) })
	return float64(left) / time.Since(began).Seconds()
}

func (h *simHub) largest() (n int) {
	for _, m := range h.members {
		n = max(n, int(m.largest.Load()))
	}
	return n
}

// fullSummary encodes a summary that has as much of everything as a summary may have.
func fullSummary(b *testing.B) []byte {
	b.Helper()
	s := &summary.Summary{At: time.Now()}
	for i := range summary.MaxShapes {
		s.Shapes = append(s.Shapes, summary.Shape{
			Type:  summary.Type{Model: fmt.Sprintf("NVIDIA H100 80GB HBM3 variant %02d", i), DeviceMemoryMB: 81_559, Devices: 8, CPUs: 224, MemoryMB: 2_000_000, Link: "NODE"},
			Free:  summary.Free{Devices: 8, PartMilli: 999, CPUs: 224, MemoryMB: 2_000_000},
			Count: 1000,
		})
		s.Models = append(s.Models, summary.Model{Name: fmt.Sprintf("NVIDIA H100 80GB HBM3 variant %02d", i), Devices: 8000, Free: 8000, FreeInLeaf: 512, InLeaf: 512, PriceMicros: 3_000_000, RuntimeMilli: 1000})
	}
	for i := range summary.MaxTenants {
		s.Tenants = append(s.Tenants, summary.TenantUse{Tenant: fmt.Sprintf("tenant-with-a-name-that-is-as-long-as-a-name-may-be-%011d", i), GPUMilli: 1 << 30, CPUs: 1 << 20, MemoryMB: 1 << 40})
		s.Labels = append(s.Labels, summary.Label{Key: "topology.example.com/rack", Value: fmt.Sprintf("rack-%018d", i), Nodes: 100})
	}
	data, err := s.Encode()
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// A moment is what the hub's process has used so far.
type moment struct {
	cpu          time.Duration
	memory, peak int64
	count        int64
	buckets      []bucket
}

func (h *simHub) now() moment {
	s := h.c.Servers[0]
	out := moment{cpu: s.CPU(), buckets: decisionBuckets(h.b, s)}
	out.memory, out.peak = s.Memory()
	if n := len(out.buckets); n > 0 {
		out.count = out.buckets[n-1].count
	}
	return out
}

// decision returns a quantile of the decisions since another moment, interpolated within the histogram's bucket.
func (m moment) decision(since moment, q float64) string {
	want, before, from := q*float64(m.count-since.count), 0.0, 0.0
	for i, k := range m.buckets {
		count := float64(k.count)
		if i < len(since.buckets) {
			count -= float64(since.buckets[i].count)
		}
		if count > 0 && count >= want {
			return fmt.Sprintf("%.2f ms", 1000*(from+(k.until-from)*(want-before)/(count-before)))
		}
		before, from = count, k.until
	}
	return "no decision"
}
