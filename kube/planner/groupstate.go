package planner

import (
	"cmp"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// GroupState says whether as many pods of a PodGroup are bound as it asks for, or why they are not.
type GroupState struct {
	Group watch.GroupRef
	Bound bool
	Text  string
}

// GroupStates returns the states of PodGroups that changed since they were last returned, for at most `limit` groups. Only
// the PodGroups of Kubernetes itself have such a state.
func (p *Planner) GroupStates(limit int, now time.Time) []GroupState {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(now)
	var out []GroupState
	refusals := map[ares.JobID]string{}
	for _, key := range slices.Sorted(maps.Keys(p.gangs)) {
		g := p.gangs[key]
		if len(out) == limit {
			break
		}
		if g.group.Name == "" {
			continue
		}
		state := p.groupState(g, refusals, now)
		if state == g.told || !state.Bound && state.Text == "" {
			continue
		}
		g.told = state
		out = append(out, state)
	}
	return out
}

func (p *Planner) groupState(g *gang, refusals map[ares.JobID]string, now time.Time) GroupState {
	state := GroupState{Group: g.group}
	if _, bound := g.count(); bound >= g.size {
		state.Bound = true
		return state
	}
	for _, o := range slices.SortedFunc(maps.Values(g.pods), func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
	}) {
		if p.ours(o.Pod) && o.Node == "" && !o.Gated && !o.Leaving && state.Text == "" {
			state.Text = p.reason(o, refusals, now)
		}
	}
	return state
}
