package engine

import (
	"fmt"
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// diagnosis is the nodes by what rules them out.
type diagnosis struct {
	state        *explainer
	shape        *shape
	request      *request
	feasible     *set
	total        int
	counts       [reasonCount]int
	mostFree     int // most free devices of a node that has too few
	fitted       int // members that found room, all of them together
	groups       []reasonGroup
	last         int           // of groups: the one that was noted last
	matches      []deviceMatch // by profile
	windows      []*window     // that keep the shape's jobs off
	windowCounts []int         // nodes that each of these rules out first
}

// reasonGroup is the nodes with the same hurdles.
type reasonGroup struct {
	reasons reasons
	count   int
	nodes   []*node // the first of them that lack the fewest devices
	missing []int   // of each of these
}

// maxGroupNodes is how many nodes of a group are remembered.
const maxGroupNodes = 8

// diagnose takes the census for a shape, with models left out for lack of quota.
func (ex *explainer) diagnose(sh *shape, ban uint64) *diagnosis {
	c := &diagnosis{state: ex, shape: sh, request: ex.cluster.withoutModels(sh.request, ban), matches: make([]deviceMatch, len(ex.cluster.nodeTypes.all))}
	c.feasible, _ = ex.round.place.feasibleNodes(sh, c.request)
	if c.feasible == &ex.round.place.feasibleScratch { // scratch, which the next one to ask overwrites
		c.feasible = new(ex.round.place.feasibleScratch.clone())
	}
	if len(ex.windows.windows) > 0 {
		c.windows = slices.Clone(ex.windows.blockingWindows(sh, &c.request.constraints.feasible.nodes))
		c.windowCounts = make([]int, len(c.windows))
	}
	w := c.request
	need := max(w.gpus, 1)
	last, v, tight := int32(-1), (*deviceMatch)(nil), false
	for at := range ex.cluster.summaries {
		g := &ex.cluster.summaries[at]
		if !g.open || !c.feasible.has(at) {
			c.inspect(ex.cluster.nodes[at])
			continue
		}
		if g.profile != last {
			p := ex.cluster.nodeTypes.all[g.profile]
			last, v, tight = g.profile, c.matchFor(p), p.cpus < w.cpus || p.memory < w.memory
		}
		if tight || w.needsDevices() && bits.OnesCount64(v.fit&g.usable) < need {
			c.inspect(ex.cluster.nodes[at])
			continue
		}
		var m reasons
		free := bits.OnesCount64(v.fit & g.free)
		if w.gpus > 0 && free < need || w.milli > 0 && free == 0 && int(g.part) < w.milli {
			m |= reasonBusyDevices.bit()
		}
		if sp := &ex.cluster.freeCPUMem[at]; int(sp.cpus) < w.cpus {
			m |= reasonBusyCPUs.bit()
		} else if int(sp.memory) < w.memory {
			m |= reasonBusyMemory.bit()
		}
		if m == 0 {
			c.inspect(ex.cluster.nodes[at])
			continue
		}
		c.total++
		c.tally(at, m, free)
	}
	return c
}

func (c *diagnosis) matchFor(p *nodeType) *deviceMatch {
	v := &c.matches[p.id]
	if !v.known {
		*v = p.matchDevices(c.request, c.shape.request)
	}
	return v
}

// inspect looks at a node closely.
func (c *diagnosis) inspect(n *node) {
	if n.record == nil {
		return
	}
	c.total++
	m := c.reasonsFor(n)
	if m == 0 {
		room := n.roomFor(c.request)
		if c.shape.spreadsMembers() {
			room = min(room, 1)
		}
		c.fitted += room
	}
	c.tally(n.pos, m, c.freeDevices(n))
}

// freeDevices is how many devices of a node are free that suit.
func (c *diagnosis) freeDevices(n *node) int { return bits.OnesCount64(c.matchFor(n.typ).fit & n.free) }

// reasonsFor is all that rules a node out.
func (c *diagnosis) reasonsFor(n *node) reasons {
	v := c.matchFor(n.typ)
	m := n.reasonsAgainst(c.request, v)
	if m>>reasonSelector&(1<<(reasonAccelerator-reasonSelector)-1) == 0 && !c.feasible.has(n.pos) && !m.has(reasonAccelerator) && (!c.request.needsDevices() || v.fit != 0) {
		m |= c.exclusionReason(n)
	}
	return m
}

// separateHeld tells what is kept for others from what is taken. A node is counted by
// what would rule it out were nothing kept, and where nothing would as kept: who
// looks at it sees what is free.
func (c *diagnosis) separateHeld(kept []delta) {
	var seen []*node
	for i := range kept {
		n := kept[i].node
		if slices.Contains(seen, n) {
			continue
		}
		seen = append(seen, n)
		apply := func(sign int) {
			for k := i; k < len(kept); k++ {
				if kept[k].node == n {
					kept[k].apply(sign)
				}
			}
		}
		as := c.reasonsFor(n).first()
		apply(-1)
		is, free := c.reasonsFor(n).first(), c.freeDevices(n)
		apply(+1)
		if as == reasonNone {
			continue
		}
		if is == reasonBusyDevices {
			c.mostFree = max(c.mostFree, free)
		}
		if is == reasonNone {
			is = reasonHeld
		}
		c.counts[as]--
		c.counts[is]++
	}
}

// exclusionReason is why a node is left out that suits.
func (c *diagnosis) exclusionReason(n *node) reasons {
	if c.windowOf(n.pos) >= 0 {
		return reasonReserved.bit()
	}
	return reasonJobAffinity.bit()
}

// windowOf is the first window that rules a node out, -1 for none.
func (c *diagnosis) windowOf(at int) int {
	return slices.IndexFunc(c.windows, func(v *window) bool { return v.nodes.has(at) })
}

// tally counts a node with its hurdles and the devices it has free.
func (c *diagnosis) tally(at int, m reasons, free int) {
	first := m.first()
	c.counts[first]++
	if first == reasonReserved {
		c.windowCounts[c.windowOf(at)]++
	}
	if first == reasonBusyDevices {
		c.mostFree = max(c.mostFree, free)
	}
	if m == 0 {
		return
	}
	if c.last >= len(c.groups) || c.groups[c.last].reasons != m { // neighbours are often alike
		c.last = slices.IndexFunc(c.groups, func(g reasonGroup) bool { return g.reasons == m })
		if c.last < 0 {
			c.last = len(c.groups)
			c.groups = append(c.groups, reasonGroup{reasons: m})
		}
	}
	g := &c.groups[c.last]
	g.count++
	lack := c.request.gpus - free
	if len(g.nodes) == maxGroupNodes && lack >= g.missing[maxGroupNodes-1] {
		return
	}
	k := len(g.nodes)
	for k > 0 && g.missing[k-1] > lack {
		k--
	}
	g.nodes, g.missing = slices.Insert(g.nodes, k, c.state.cluster.nodes[at]), slices.Insert(g.missing, k, lack)
	if len(g.nodes) > maxGroupNodes {
		g.nodes, g.missing = g.nodes[:maxGroupNodes], g.missing[:maxGroupNodes]
	}
}

// nodeBlockers says what a census found: the nodes by what rules them out, each
// under the first thing that does, and how many members found room. It is for a
// job that found no place, so it always has something to say. model is the
// want's as the job spells it.
func (ex *explainer) nodeBlockers(c *diagnosis, model string) []ares.Blocker {
	if c.total == 0 {
		return []ares.Blocker{{Kind: kindNodes, Detail: "there are no nodes yet"}}
	}
	if ex.cluster.exceedsLeafLimit(c.request) {
		return []ares.Blocker{{Kind: kindNodes, Detail: fmt.Sprintf("one job may take %d %ss of a leaf at most, and one member asks for %d",
			ex.cluster.topology.MaxGPUsPerLeaf, c.request.deviceWord(), c.request.gpus)}}
	}
	var out []ares.Blocker
	for h, count := range c.counts {
		if reason(h) == reasonReserved {
			for i, n := range c.windowCounts {
				if n > 0 {
					out = append(out, ares.Blocker{Kind: kindReserved, Count: n, Of: c.total, Detail: ex.windows.blockText(c.windows[i])})
				}
			}
			continue
		}
		if count > 0 && reason(h) != reasonNone {
			out = append(out, ares.Blocker{Kind: blockerKind(reason(h)), Count: count, Of: c.total, Detail: c.reasonText(reason(h), model)})
		}
	}
	if c.shape.members > 1 && c.fitted > 0 {
		out = append(out, ex.gangBlocker(c))
	}
	return out
}
