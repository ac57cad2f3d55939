package sim

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Kueue's performance tests create cohorts of queues, and in every queue several
// series of jobs, each at a constant rate. The workloads here model them in
// virtual time by these rules:
//
//   - A cohort is a tenant whose quota is the sum of its queues' quotas; it
//     borrows and lends nothing. A Kueue queue is a queue of that tenant, with the
//     same quota and borrowing limit; it lends what it does not use.
//   - Kueue's quotas are cores, and quotas here are GPUs. One GPU stands for one
//     core, or for 1.25 cores in the topology test: half a core is then 400
//     thousandths of a device, and the other requests are whole devices.
//   - Without the topology Kueue places nothing on nodes. Here there are machines
//     of 20 GPUs, twice as many as all quotas could fill, so that only quotas
//     bind.
//   - A block is a spine, a rack is a leaf. Kueue spreads pods in slices, each
//     slice in one rack; here all pods are in one rack, which is stricter.
//   - Priorities are the same. Kueue's queues may preempt within themselves and
//     reclaim borrowed quota; Ares does not preempt here.

// cohorts is the configuration of a Kueue test.
type cohorts struct {
	cohorts, queues int
	nominal, borrow int // GPUs of a queue
	series          []kueueSeries
}

// kueueSeries is a series of equal jobs in one queue.
type kueueSeries struct {
	class    string
	count    int
	every    time.Duration
	runs     time.Duration
	priority int
	spec     ares.Spec
}

// work returns the total work of the series, in thousandths of GPUs multiplied
// by time.
func (s *kueueSeries) work() time.Duration {
	asks := s.spec.Asks()
	return time.Duration(s.count*(1000*asks.GPUs+asks.GPUMilli)) * s.runs
}

// build makes the workload on a fleet of machines.
func (c *cohorts) build(machines Machine) *Workload {
	w := &Workload{Fleet: &Fleet{Machines: []Machine{machines}}, Trace: &Trace{}}
	none := 0
	for i := range c.cohorts {
		t := Tenant{Name: fmt.Sprintf("cohort-%d", i), Quotas: []Quota{{GPUs: c.queues * c.nominal, Lend: &none}}}
		for k := range c.queues {
			q := Queue{Name: fmt.Sprintf("cq-%d", k), Quotas: []Quota{{GPUs: c.nominal, Borrow: c.borrow}}}
			t.Queues = append(t.Queues, q)
			for s := range c.series {
				w.Trace.Arrivals = append(w.Trace.Arrivals, c.series[s].arrivals(t.Name, q.Name)...)
			}
		}
		w.Fleet.Shares = append(w.Fleet.Shares, t)
	}
	work := time.Duration(0)
	for i := range c.series {
		s := &c.series[i]
		work += s.work()
		w.Bound = max(w.Bound, time.Duration(s.count)*s.every+s.runs)
	}
	w.Bound = max(w.Bound, work/time.Duration(1000*c.nominal))
	w.Trace.sorted()
	return w
}

// arrivals returns the jobs of the series in one queue. They arrive at equal
// intervals, the first after one interval.
func (s *kueueSeries) arrivals(tenant, queue string) []Arrival {
	out := make([]Arrival, s.count)
	for i := range out {
		spec := s.spec
		spec.Name, spec.Tenant, spec.Queue, spec.Priority = s.class, tenant, queue, &s.priority
		out[i] = Arrival{At: time.Duration(i+1) * s.every, Runs: s.runs, Spec: spec}
	}
	return out
}

// quotaMachines returns the machines of tests that place nothing on nodes.
func quotaMachines(c *cohorts) Machine {
	const gpus = 20
	return Machine{Name: "m", Count: 2 * c.cohorts * c.queues * c.nominal / gpus, GPUs: gpus}
}

func kueueBaseline() *Workload {
	c := cohorts{cohorts: 5, queues: 6, nominal: 20, borrow: 100, series: []kueueSeries{
		{"small", 350, 100 * time.Millisecond, 200 * time.Millisecond, 50, ares.Spec{GPUs: 1}},
		{"medium", 100, 500 * time.Millisecond, 500 * time.Millisecond, 100, ares.Spec{GPUs: 5}},
		{"large", 50, 1200 * time.Millisecond, time.Second, 200, ares.Spec{GPUs: 20}},
	}}
	w := c.build(quotaMachines(&c))
	w.About, w.Published = "Kueue's baseline: 15,000 jobs, 5 cohorts of 6 queues", 351*time.Second
	return w
}

func kueueLargeScale() *Workload {
	c := cohorts{cohorts: 10, queues: 100, nominal: 20, borrow: 100, series: []kueueSeries{
		{"small", 35, 60 * time.Millisecond, 150 * time.Millisecond, 50, ares.Spec{GPUs: 1}},
		{"medium", 11, 300 * time.Millisecond, 350 * time.Millisecond, 100, ares.Spec{GPUs: 5}},
		{"large", 4, 700 * time.Millisecond, 700 * time.Millisecond, 200, ares.Spec{GPUs: 20}},
	}}
	w := c.build(quotaMachines(&c))
	w.About, w.Published = "Kueue's large scale: 50,000 jobs, 10 cohorts of 100 queues", 1179*time.Second
	return w
}

func kueueTopology() *Workload {
	c := cohorts{cohorts: 5, queues: 6, nominal: 16, borrow: 80}
	const rack = "leaf"
	required, preferred := ares.Placement{RequiredLevel: rack}, ares.Placement{PreferredLevel: rack}
	for _, class := range []struct {
		name                           string
		required, preferred, sliced    int // jobs
		every, runs                    time.Duration
		priority, members, gpus, milli int
	}{
		{"small", 120, 120, 110, 100 * time.Millisecond, 200 * time.Millisecond, 50, 2, 0, 400},
		{"medium", 34, 33, 33, 500 * time.Millisecond, 500 * time.Millisecond, 100, 4, 1, 0},
		{"large", 17, 17, 16, 1200 * time.Millisecond, time.Second, 200, 8, 2, 0},
	} {
		for _, part := range []struct {
			name  string
			count int
			where ares.Placement
		}{{"required", class.required, required}, {"preferred", class.preferred, preferred}, {"balanced", class.sliced, required}} {
			c.series = append(c.series, kueueSeries{
				class.name + "-" + part.name + "-rack", part.count, class.every, class.runs, class.priority,
				ares.Spec{Members: class.members, GPUs: class.gpus, GPUMilli: class.milli, Placement: part.where},
			})
		}
	}
	w := c.build(Machine{Name: "node", Count: 640, GPUs: 64, LeafSize: 64, Labels: map[string]string{"spine": "block-0"}})
	w.About, w.Published = "Kueue's topology: 15,000 gangs, 5 cohorts of 6 queues, 640 nodes in 10 racks", 402*time.Second
	return w
}
