package choose

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

var (
	clusters  = rounds.Sized(100, 5)
	nodes     = rounds.Sized(100, 10)
	waiting   = rounds.Sized(10_000, 200)
	decisions = rounds.Sized(1000, 20)
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// federation is a chooser with clusters whose nodes have a given number of free devices.
type federation struct {
	*choose.Chooser
	free   [][]int // by cluster and node
	random *rand.Rand
	jobs   int
}

func newFederation(free func() int) *federation {
	o := choose.Default()
	regions := []string{"eu", "us", "ap"}
	o.Needs = func(j *ares.Job) choose.Needs { // a tenth of the jobs have data, a third of it resident
		n := j.Revision
		if n%10 != 0 {
			return choose.Needs{}
		}
		return choose.Needs{Data: []choose.Data{{URI: "s3://data", Home: regions[n/10%3], Bytes: 1 << 36, Resident: n/10%9 < 3}}}
	}
	f := &federation{Chooser: choose.New(config.Default(), o), random: rand.New(rand.NewPCG(1, 2))}
	events := make([]ares.Event, 0, 10)
	for i := range 10 {
		events = append(events, ares.Event{Tenant: &ares.Tenant{ID: fmt.Sprint("t", i), Limits: ares.NoLimits()}})
	}
	f.Apply(ares.Batch{Reset: true, Events: events, At: start})
	for c := range clusters {
		f.free = append(f.free, make([]int, nodes))
		for n := range nodes {
			f.free[c][n] = free()
		}
		f.send(c, start)
	}
	f.submit(waiting)
	return f
}

// send sends the summary of a cluster.
func (f *federation) send(c int, now time.Time) {
	model := []string{"H100", "A100", "V100", "T4"}[c%4]
	s := &summary.Summary{At: now, EgressMicros: 20_000, Models: []summary.Model{{Name: model, Devices: 8 * nodes, PriceMicros: int64(1_000_000 * (1 + c%2)), RuntimeMilli: 1000}}}
	counts := map[int]int{}
	for _, free := range f.free[c] {
		counts[free]++
	}
	for free := 8; free >= 0; free-- {
		if counts[free] > 0 {
			s.Shapes = append(s.Shapes, summary.Shape{
				Type: summary.Type{Model: model, Devices: 8, CPUs: 96, MemoryMB: 768_000},
				Free: summary.Free{Devices: free, CPUs: 12 * free, MemoryMB: 96_000 * free}, Count: counts[free],
			})
		}
	}
	f.SetCluster(choose.Cluster{Name: fmt.Sprintf("c%03d", c), Region: []string{"eu", "us", "ap"}[c%3], Open: true, Summary: s}, now)
}

// submit adds waiting jobs of 30 kinds.
func (f *federation) submit(n int) {
	b := ares.Batch{At: start}
	for range n {
		spec := ares.Spec{Tenant: fmt.Sprint("t", f.random.IntN(10)), GPUs: []int{1, 1, 1, 2, 4, 8}[f.random.IntN(6)], GPUModel: []string{"", "", "", "H100", "T4"}[f.random.IntN(5)]}
		b.Events = append(b.Events, ares.Event{Job: &ares.Job{ID: ares.JobID(fmt.Sprintf("j%06d", f.jobs)), Spec: spec.WithDefaults(), AcceptedAt: start, Revision: int64(f.jobs)}})
		f.jobs++
	}
	f.Apply(b)
}

// BenchmarkDecision measures one decision with the change before it. In the first case, all clusters are full; before each
// decision some devices of one cluster become free, and the jobs that get them are replaced by new ones. In the second
// case, all clusters are empty, and every decision makes as many offers as one decision may.
func BenchmarkDecision(b *testing.B) {
	for range b.N {
		rows := [][]string{{"clusters are", "decisions", "offers", "p50, ms", "p99, ms", "longest, ms"}}
		full := newFederation(func() int { return 0 })
		rows = append(rows, full.measure(b, "full", func(now time.Time) {
			c := full.random.IntN(clusters)
			for range 4 {
				full.free[c][full.random.IntN(nodes)] = 1 + full.random.IntN(8)
			}
			full.send(c, now)
			clear(full.free[c])
		}))
		empty := newFederation(func() int { return 8 })
		rows = append(rows, empty.measure(b, "empty", func(now time.Time) { empty.send(empty.random.IntN(clusters), now) }))
		title := fmt.Sprintf("A decision of the hub: %d clusters of %d nodes, %d jobs wait; with the summary that led to it; thread CPU time", clusters, nodes, waiting)
		if err := rounds.Table(os.Stdout, title, rows); err != nil {
			b.Fatal(err)
		}
	}
}

// measure decides many times and returns a row of the table.
func (f *federation) measure(b *testing.B, name string, change func(now time.Time)) []string {
	b.Helper()
	took, offers := make([]time.Duration, 0, decisions), 0
	for i := range decisions {
		now := start.Add(time.Duration(i) * 100 * time.Millisecond)
		var made []choose.Offer
		var lap rounds.Lap
		lap.Time(func() {
			change(now)
			made, _ = f.Decide(now)
		})
		took = append(took, lap.Thread)
		var gone ares.Batch
		for _, o := range made {
			if o.Ahead {
				f.SetGrant(o.Job, o.Clusters(), now)
				continue
			}
			offers++
			gone.Events = append(gone.Events, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(o.Job)}})
		}
		f.Apply(gone)
		f.submit(len(gone.Events))
		for c := range clusters {
			if slices.Max(f.free[c]) == 0 {
				f.send(c, now) // the members have started the jobs
			}
		}
	}
	if offers == 0 {
		b.Fatal("no job was offered")
	}
	slices.Sort(took)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
	return []string{name, fmt.Sprint(decisions), fmt.Sprint(offers), ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1])}
}
