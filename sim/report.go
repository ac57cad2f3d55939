package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Report is what a simulation shows. Times are in seconds, shares in percent.
type Report struct {
	Jobs     int     `json:"jobs"`
	Placed   int     `json:"placed"`
	Ended    int     `json:"ended"`
	Virtual  float64 `json:"virtual_seconds"`
	GPUs     int     `json:"gpus"`
	Use      float64 `json:"gpu_use_percent"` // of all GPU-seconds until the last event
	Peak     float64 `json:"gpu_use_peak_percent"`
	Complete Spread  `json:"completion_seconds"` // from submission to end
	Wait     Spread  `json:"waiting_seconds"`    // from submission to placing
	BySize   []Group `json:"by_size"`
	ByTenant []Group `json:"by_tenant"`
}

// Spread is the shape of a set of times.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Group is the jobs of one size or tenant.
type Group struct {
	Name     string `json:"name"`
	Jobs     int    `json:"jobs"`
	Complete Spread `json:"completion_seconds"`
	Wait     Spread `json:"waiting_seconds"`
}

// Report says how the jobs have fared so far.
func (w *World) Report() Report {
	r := Report{Jobs: len(w.jobs), Virtual: w.now.Sub(Epoch).Seconds(), GPUs: w.gpus}
	all := group{}
	sizes, tenants := map[string]*group{}, map[string]*group{}
	for i := range w.jobs {
		j := &w.jobs[i]
		if j.placed.IsZero() {
			continue
		}
		r.Placed++
		wait, complete := j.placed.Sub(j.accepted), time.Duration(-1)
		if !j.ended.IsZero() {
			r.Ended++
			complete = j.ended.Sub(j.accepted)
		}
		for _, g := range []*group{&all, in(sizes, sizeName(j.gpus)), in(tenants, j.tenant)} {
			g.add(wait, complete)
		}
	}
	r.Wait, r.Complete = spread(all.waits), spread(all.completes)
	r.BySize, r.ByTenant = groups(sizes), groups(tenants)
	if total := float64(w.gpus) * r.Virtual; total > 0 {
		r.Use = 100 * w.held.area / 1000 / total
		r.Peak = 100 * float64(w.held.peak) / 1000 / float64(w.gpus)
	}
	return r
}

// group collects the times of some jobs.
type group struct{ waits, completes []float64 }

func in(groups map[string]*group, name string) *group {
	if groups[name] == nil {
		groups[name] = &group{}
	}
	return groups[name]
}

func (g *group) add(wait, complete time.Duration) {
	g.waits = append(g.waits, wait.Seconds())
	if complete >= 0 {
		g.completes = append(g.completes, complete.Seconds())
	}
}

func groups(by map[string]*group) []Group {
	out := make([]Group, 0, len(by))
	for name, g := range by {
		out = append(out, Group{Name: name, Jobs: len(g.waits), Wait: spread(g.waits), Complete: spread(g.completes)})
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// sizeName is the class of a job by its GPUs: 1, 2, 4, 8, more.
func sizeName(milli int) string {
	gpus := (milli + 999) / 1000
	for _, most := range []int{0, 1, 2, 4, 8, 16, 32, 64} {
		if gpus <= most {
			return fmt.Sprint(most)
		}
	}
	return "more"
}

// spread sorts times and reads them off.
func spread(times []float64) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	sum := 0.0
	for _, t := range times {
		sum += t
	}
	at := func(percent int) float64 { return times[(len(times)-1)*percent/100] }
	return Spread{Mean: sum / float64(len(times)), P50: at(50), P95: at(95), P99: at(99), Max: times[len(times)-1]}
}

// meter adds up what is held over time.
type meter struct {
	milli int // now
	peak  int
	area  float64 // thousandths of devices by seconds
	since time.Time
}

func (m *meter) to(now time.Time, change int) {
	m.area += float64(m.milli) * now.Sub(m.since).Seconds()
	m.since = now
	m.milli += change
	m.peak = max(m.peak, m.milli)
}
