package sim

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Kueue's performance tests create cohorts of queues. Every queue gets several
// series of jobs, and the jobs of a series arrive at a constant rate. The
// workloads in this file model these tests in virtual time by these rules:
//
//   - A cohort becomes a tenant that neither borrows nor lends. The tenant's quota
//     is the sum of its queues' quotas. A queue of a cohort becomes a queue of the
//     cohort's tenant, with the same quota and borrowing limit. The queue lends its
//     unused quota.
//   - Kueue's quotas count cores, and quotas in this simulation count GPUs. One GPU
//     stands for one core, or for 1.25 cores in the topology test. In the topology
//     test, half a core is 400 thousandths of a device, and all other requests are whole
//     devices.
//   - Kueue's tests without a topology do not place pods on nodes. For these tests, the
//     simulated machines have 20 GPUs each. There are twice as many machines as all
//     quotas together could fill, so only quotas limit jobs.
//   - A block in Kueue's topology becomes a spine, and a rack becomes a leaf. Kueue
//     requires only that each slice of a job's pods is in one rack. This simulation
//     requires that all pods of a job are in one rack, which is stricter.
//   - Jobs have the same priorities as in Kueue's test. Kueue's queues may preempt their
//     own jobs and reclaim borrowed quota. In this simulation, Ares preempts no jobs.

// This type is the configuration of a Kueue test.
type cohorts struct {
	cohorts, queues int
	nominal, borrow int // GPUs of each queue
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

// This method returns the total work of the series: the number of GPUs, in thousandths,
// multiplied by the runtime.
func (s *kueueSeries) work() time.Duration {
	asks := s.spec.Asks()
	return time.Duration(s.count*(1000*asks.GPUs+asks.GPUMilli)) * s.runs
}

// This method returns the workload of the Kueue test, for a fleet of the given machines.
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

// This method returns the jobs of a series for one queue. The jobs of a series
// arrive at equal intervals, the first after one interval.
func (s *kueueSeries) arrivals(tenant, queue string) []Arrival {
	out := make([]Arrival, s.count)
	for i := range out {
		spec := s.spec
		spec.Name, spec.Tenant, spec.Queue, spec.Priority = s.class, tenant, queue, &s.priority
		out[i] = Arrival{At: time.Duration(i+1) * s.every, Runs: s.runs, Spec: spec}
	}
	return out
}

// quotaMachines returns the machines for tests in which Kueue does not place pods on nodes.
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
	required, preferred := &ares.Placement{RequiredLevel: rack}, &ares.Placement{PreferredLevel: rack}
	for _, class := range []struct {
		name                           string
		required, preferred, sliced    int // number of jobs
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
			where *ares.Placement
		}{{"required", class.required, required}, {"preferred", class.preferred, preferred}, {"balanced", class.sliced, required}} {
			c.series = append(c.series, kueueSeries{
				class.name + "-" + part.name + "-rack", part.count, class.every, class.runs, class.priority,
				ares.Spec{Members: class.members, GPUs: class.gpus, GPUMilli: class.milli, Constraints: part.where},
			})
		}
	}
	w := c.build(Machine{Name: "node", Count: 640, GPUs: 64, LeafSize: 64, Labels: map[string]string{"spine": "block-0"}})
	w.About, w.Published = "Kueue's topology: 15,000 gangs, 5 cohorts of 6 queues, 640 nodes in 10 racks", 402*time.Second
	return w
}
