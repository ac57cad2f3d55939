package control

import (
	"math"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Refusal says in short why a job waits, by the same state decisions are made
// from: for lists.
func (l *Loop) Refusal(id ares.JobID) ares.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return engine.Explain(l.state, id, l.Now())
}

// Explain says everything that can be said of a waiting job.
func (l *Loop) Explain(id ares.JobID) ares.Explanation {
	out := ares.Explanation{Refusal: l.Refusal(id)}
	if e := l.view.Job(id); e != nil {
		out.Queue = e.Job.Queue
	}
	return out
}

// Plan says where a job would go now, or else why it would wait. It changes
// nothing.
func (l *Loop) Plan(job *ares.Job) (ares.Placing, *ares.Explanation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seats, refusal := engine.Place(l.state, job, l.Now())
	if refusal != nil {
		return ares.Placing{Job: job.ID}, &ares.Explanation{Refusal: *refusal, Queue: job.Queue}
	}
	return ares.Placing{Job: job.ID, Seats: seats}, nil
}

// Fairness says who holds how much of the fleet against what is theirs.
func (l *Loop) Fairness() ares.Fairness { return l.view.fairness() }

// million is a whole share.
const million = 1_000_000

// fleet is what the nodes with a session have.
type fleet struct{ gpuMilli, cpus, memoryMB int }

func (v *View) fleet() fleet {
	var f fleet
	nodes, _ := v.Nodes()
	for _, n := range nodes {
		if n.Session == nil {
			continue
		}
		f.cpus += n.Node.CPUs
		f.memoryMB += n.Node.MemoryMB
		for _, dev := range n.Node.Devices {
			if dev.Parent == "" { // else it is part of one that is counted
				f.gpuMilli += 1000
			}
		}
	}
	return f
}

func (v *View) fairness() ares.Fairness {
	var out ares.Fairness
	f := v.fleet()
	sum, squares, n := 0.0, 0.0, 0.0
	queues := map[string][]*ares.Queue{}
	for _, q := range v.Queues("") {
		queues[q.Tenant] = append(queues[q.Tenant], q)
	}
	for _, t := range v.Tenants() {
		s := v.share(f, t.ID, t.Weight)
		s.Tenant = t.ID
		out.Shares = append(out.Shares, s)
		if s.Resource != "" || s.Waiting > 0 {
			x := float64(s.WeightedShare)
			sum, squares, n = sum+x, squares+x*x, n+1
		}
		for _, q := range queues[t.ID] {
			s := v.share(f, q.ID(), q.Weight)
			s.Tenant, s.Queue = t.ID, q.Name
			out.Shares = append(out.Shares, s)
		}
	}
	out.Jain = 1000 // nobody holds anything: all are equal
	if squares > 0 {
		out.Jain = int(math.Round(1000 * sum * sum / (n * squares)))
	}
	return out
}

// share is what a tenant or a queue holds of the fleet.
func (v *View) share(f fleet, of string, weight float64) ares.FairShare {
	if weight == 0 {
		weight = 1
	}
	use, waiting := v.Use(of)
	s := ares.FairShare{
		Weight: weight, GPUMilli: 1000*use.GPUs + use.GPUMilli, CPUs: use.CPUs, MemoryMB: use.MemoryMB, Waiting: waiting,
	}
	for _, r := range []struct {
		name      string
		held, all int
	}{{"gpu", s.GPUMilli, f.gpuMilli}, {"cpu", s.CPUs, f.cpus}, {"memory", s.MemoryMB, f.memoryMB}} {
		// What is held of nodes that are away may be more than all.
		if part := min(million*r.held/max(r.all, 1), million); r.held > 0 && (s.Resource == "" || part > s.DominantShare) {
			s.Resource, s.DominantShare = r.name, part
		}
	}
	s.WeightedShare = int(math.Min(float64(s.DominantShare)/weight, math.MaxInt32))
	return s
}
