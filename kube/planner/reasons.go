package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Reason says why a pod waits.
type Reason struct {
	Pod  Ref
	Text string
	// Nominated is the node that the pod will get when the workloads that it preempts have stopped, "" if it preempts none.
	Nominated string
}

// WaitingReasons returns the reasons of waiting pods that changed since they were last returned, for at most `limit` pods. The
// oldest pods come first.
func (p *Planner) WaitingReasons(limit int, now time.Time) []Reason {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(now)
	var list []*pod
	for _, o := range p.pods {
		if p.ours(o.Pod) && o.Node == "" && !o.Gated && !o.Leaving {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
	})
	var out []Reason
	refusals := map[ares.JobID]string{}
	for _, o := range list {
		if len(out) == limit {
			break
		}
		text := p.reason(o, refusals, now)
		if text == "" || text == o.told {
			continue
		}
		o.told = text
		out = append(out, Reason{Ref{o.UID, o.Namespace, o.Name}, text, o.nominatedNode()})
	}
	return out
}

// reason returns why a pod waits, or "" if it does not.
func (p *Planner) reason(o *pod, refusals map[ares.JobID]string, now time.Time) string {
	if o.unit == nil {
		if problem := p.problem(o); problem != "" {
			return problem
		}
	}
	switch {
	case o.Problem != "":
		return o.Problem
	case o.unit == nil:
		return p.incomplete(o)
	case o.unit.fence != 0:
		return ""
	case o.unit.run.Nominated != nil:
		return fmt.Sprintf("waits until %d preempted workloads have stopped", len(o.unit.run.Nominated.Victims))
	}
	if o.gang.misfit {
		return fmt.Sprintf("no %s was found with enough free GPUs for all pods of the gang together: they ask for different numbers", o.Gang.Level)
	}
	id := o.unit.job.ID
	text, known := refusals[id]
	if !known {
		text = engine.Refusal(p.state, id, now).String()
		refusals[id] = text
	}
	return text
}

// nominatedNode returns the node for which the pod's unit preempts others, or "".
func (o *pod) nominatedNode() string {
	if o.unit == nil || o.unit.run.Nominated == nil {
		return ""
	}
	for _, s := range o.unit.run.Nominated.Seats {
		if s.Rank == o.rank {
			return s.Node
		}
	}
	return ""
}

// incomplete says what a pod without a unit waits for, or "" if it is in the next cycle.
func (p *Planner) incomplete(o *pod) string {
	size, inUnits := o.Gang.Size, 0
	exist := 0
	for _, other := range o.gang.pods {
		if !other.Leaving {
			exist++
		}
		if other.unit != nil {
			inUnits++
		}
	}
	ready := len(p.waiting(o.gang))
	switch {
	case inUnits > 0 && inUnits < size:
		return ""
	case inUnits > 0:
		return fmt.Sprintf("waits until the first %d pods of its gang are bound", size)
	case exist < size && o.Gang.Source != "":
		return fmt.Sprintf("%s, and %d of its pods with GPUs exist", o.Gang.Source, exist)
	case exist < size:
		return fmt.Sprintf("the gang is not complete: %d of %d pods exist", exist, size)
	case ready < size:
		return fmt.Sprintf("the gang is not complete: %d pods exist, but %d of them cannot be placed: see their conditions and scheduling gates", exist, exist-ready)
	}
	return ""
}

// State calls a function with the engine's state. The function must not keep it.
func (p *Planner) State(read func(*engine.State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	read(p.state)
}
