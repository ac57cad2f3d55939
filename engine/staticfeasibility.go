package engine

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// StaticFeasibility treats every node with a record as connected, uncordoned, healthy and empty. So
// StaticFeasibility can tell whether a job can never run on these nodes, or only has to wait.
type StaticFeasibility struct {
	state         *State
	verdicts      map[string]*ares.Refusal       // by shape, nil if feasible; cleared when a node changes
	verdictsByKey map[job.ShapeKey]*ares.Refusal // the same for specs without list fields, which have a cheaper key
}

// maxVerdicts is the maximum number of verdicts in each cache.
const maxVerdicts = 10_000

// NewStaticFeasibility returns a StaticFeasibility without nodes.
func NewStaticFeasibility() *StaticFeasibility {
	return &StaticFeasibility{state: New(), verdicts: map[string]*ares.Refusal{}, verdictsByKey: map[job.ShapeKey]*ares.Refusal{}}
}

// Apply applies only those events of a batch that describe nodes or the topology. Apply treats the
// revision and the flag Reset of a batch in the same way as State.Apply.
func (f *StaticFeasibility) Apply(b ares.Batch) {
	if !b.Reset && b.Revision <= f.state.core.Revision {
		return
	}
	events := b.Events
	b.Events = []ares.Event{{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}}}
	for i := range events {
		b.Events = append(b.Events, idleEvents(&events[i])...)
	}
	if len(b.Events) == 1 && !b.Reset {
		return // no event about nodes
	}
	clear(f.verdicts)
	clear(f.verdictsByKey)
	f.state.Apply(b)
}

// idleEvents converts an event to the events that StaticFeasibility applies. The converted events describe the
// topology and the nodes. Each node has a session, and is healthy and cool. idleEvents drops events about jobs,
// cordons and other records.
func idleEvents(ev *ares.Event) []ares.Event {
	switch {
	case ev.Node != nil:
		n := *ev.Node
		n.Unfit, n.Devices = "", append([]ares.Device(nil), n.Devices...)
		for i := range n.Devices {
			n.Devices[i].Healthy, n.Devices[i].Celsius = true, 0
		}
		return []ares.Event{{Revision: ev.Revision, Node: &n}, {Revision: ev.Revision, Session: &ares.Session{Node: n.ID}}}
	case ev.Gone.Kind == ares.KindNode:
		return []ares.Event{*ev, {Revision: ev.Revision, Gone: ares.Gone{Kind: ares.KindSession, ID: ev.Gone.ID}}}
	case ev.Topology != nil, ev.Gone.Kind == ares.KindTopology:
		return []ares.Event{*ev}
	default:
		return nil
	}
}

// Infeasible returns why a job with this spec can never run on these nodes. The result is nil if the job can run,
// or if there are no nodes yet. Limits, quotas, dependencies and affinity to other jobs are ignored, because they
// can change. The argument `trusted` is the field Trusted of the job, because some nodes accept only such jobs.
func (f *StaticFeasibility) Infeasible(spec ares.Spec, trusted bool) *ares.Refusal {
	if len(f.state.core.Cluster.NodesByID) == 0 {
		return nil
	}
	spec.Tenant, spec.After, spec.Start, spec.Array = ares.DefaultTenant, nil, nil, ares.Array{}
	spec.Image = "" // a node can run images as soon as somebody installs a runtime there
	where := spec.EditPlacement()
	where.ContainerRoot = false                   // and make a job root in its image as soon as somebody changes a setting of its kernel
	where.Affinity, where.AntiAffinity = nil, nil // other jobs start and end
	b, plain := job.ShapeKeyOf(&ares.Job{Spec: spec, Trusted: trusted})
	b.Queue = "" // the verdict does not depend on the queue
	if verdict, known := f.verdictsByKey[b]; plain && known {
		return verdict
	}
	verdict := f.evaluate(&ares.Job{Spec: spec, Trusted: trusted})
	if plain {
		if len(f.verdictsByKey) >= maxVerdicts {
			clear(f.verdictsByKey)
		}
		f.verdictsByKey[b] = verdict
	}
	return verdict
}

// The method `evaluate` returns the verdict for a job. It is called only if no verdict is cached for the job's
// ShapeKey.
func (f *StaticFeasibility) evaluate(job *ares.Job) *ares.Refusal {
	key := f.state.core.Jobs.NewShape(job).Key
	verdict, known := f.verdicts[key]
	if known {
		return verdict
	}
	if _, r := Place(f.state, job, time.Time{}); r != nil && isAboutNodes(r) {
		verdict = r
	}
	if len(f.verdicts) >= maxVerdicts {
		clear(f.verdicts)
	}
	f.verdicts[key] = verdict
	return verdict
}

// Split takes a job of one member that can never run on these nodes. It splits the job into the smallest number of
// equal members that can run. The total request stays the same, except for rounding. If no split is feasible, Split
// returns the unchanged spec and the reason. If a split would be feasible with devices of different models, this reason
// is that of the split.
func (f *StaticFeasibility) Split(spec ares.Spec, trusted bool) (ares.Spec, *ares.Refusal) {
	infeasible := f.Infeasible(spec.WithDefaults(), trusted)
	if infeasible == nil {
		return spec, nil
	}
	var onModels *ares.Refusal // why a split is infeasible that needs several models
	for k := 2; k <= min(spec.GPUs, ares.MaxMembers); k++ {
		if spec.GPUs%k != 0 {
			continue
		}
		part := spec
		part.Members, part.GPUs = k, spec.GPUs/k
		part.GPUMemoryMB, part.CPUs, part.MemoryMB = ceilDiv(spec.GPUMemoryMB, k), ceilDiv(spec.CPUs, k), ceilDiv(spec.MemoryMB, k)
		if spec.CPUMilli > 0 {
			part.SetMilliCPUs(ceilDiv(spec.MilliCPUs(), k))
		}
		why := f.Infeasible(part.WithDefaults(), trusted)
		if why == nil {
			return part, nil
		}
		mixed := part
		if mixed.AllowMixedModels = true; onModels == nil && part.NeedsOneModel() && f.Infeasible(mixed.WithDefaults(), trusted) == nil {
			onModels = why
		}
	}
	if onModels != nil {
		return spec, onModels
	}
	return spec, infeasible
}

// ceilDiv divides an amount into k equal parts, and returns the size of one part, rounded up.
func ceilDiv(whole, k int) int { return (whole + k - 1) / k }

// isAboutNodes reports whether every blocker concerns nodes or their capacity.
func isAboutNodes(r *ares.Refusal) bool {
	for _, b := range r.Blockers {
		if b.Kind != ares.BlockerNodes && b.Kind != ares.BlockerCapacity {
			return false
		}
	}
	return true
}
