package explain

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
)

// diagnosis counts the nodes of the cluster by the reasons that exclude them for one
// request.
type diagnosis struct {
	stay         window.Stay // of the job
	state        *Explainer
	shape        *job.Shape
	request      *cluster.Request
	feasible     *cluster.Set
	total        int                      // nodes with a record
	counts       [cluster.ReasonCount]int // nodes by their first reason
	mostFree     int                      // free devices of the node that has the most, among nodes with too few
	fitted       int                      // members that fit, summed over all nodes
	groups       []reasonGroup
	last         int                   // index of the group of the last tally
	matches      []cluster.DeviceMatch // by ID of the node type
	windows      []*window.Window      // reservations that block jobs of the shape
	windowCounts []int                 // nodes with each of these as the first reason
}

// reasonGroup is the nodes with the same set of reasons.
type reasonGroup struct {
	reasons cluster.Reasons
	count   int
	nodes   []*cluster.Node // the maxGroupNodes of them that lack the fewest devices
	missing []int           // devices that each of nodes lacks, in ascending order
}

// maxGroupNodes is the number of nodes that a group keeps.
const maxGroupNodes = 8

// diagnose tests every node for a shape, without the models in ban, of which quotas leave
// too little. It reads the summaries of nodes, and inspects a node only where its
// summary does not show the reasons.
func (ex *Explainer) diagnose(sh *job.Shape, ban uint64, stay window.Stay) *diagnosis {
	c := &diagnosis{state: ex, shape: sh, stay: stay, request: ex.cluster.WithoutModels(sh.Request, ban), matches: make([]cluster.DeviceMatch, len(ex.cluster.NodeTypes.All))}
	c.feasible, _ = ex.round.Place.FeasibleNodes(sh, c.request, stay)
	if c.feasible == &ex.round.Place.FeasibleScratch { // the next call overwrites it
		c.feasible = new(ex.round.Place.FeasibleScratch.Clone())
	}
	if len(ex.windows.Windows) > 0 {
		c.windows = slices.Clone(ex.windows.BlockingWindows(sh, &c.request.Constraints.Feasible.Nodes, stay))
		c.windowCounts = make([]int, len(c.windows))
	}
	w := c.request
	need := max(w.GPUs, 1)
	last, v, tight := int32(-1), (*cluster.DeviceMatch)(nil), false
	for at := range ex.cluster.Summaries {
		g := &ex.cluster.Summaries[at]
		if !g.Open || !c.feasible.Has(at) {
			c.inspect(ex.cluster.Nodes[at])
			continue
		}
		if g.Profile != last {
			p := ex.cluster.NodeTypes.All[g.Profile]
			last, v, tight = g.Profile, c.matchFor(p), p.CPUs < w.CPUs || p.Memory < w.Memory
		}
		if tight || w.NeedsDevices() && bits.OnesCount64(v.Fit&g.Usable) < need {
			c.inspect(ex.cluster.Nodes[at])
			continue
		}
		var m cluster.Reasons
		free := bits.OnesCount64(v.Fit & g.Free)
		if w.GPUs > 0 && free < need || w.Milli > 0 && free == 0 && int(g.Part) < w.Milli {
			m |= cluster.ReasonBusyDevices.Bit()
		}
		if sp := &ex.cluster.FreeCPUMem[at]; int(sp.CPUs) < w.CPUs {
			m |= cluster.ReasonBusyCPUs.Bit()
		} else if int(sp.Memory) < w.Memory {
			m |= cluster.ReasonBusyMemory.Bit()
		}
		if m == 0 {
			c.inspect(ex.cluster.Nodes[at])
			continue
		}
		c.total++
		c.tally(at, m, free)
	}
	return c
}

// matchFor returns the device match of a node type, computed once.
func (c *diagnosis) matchFor(p *cluster.NodeType) *cluster.DeviceMatch {
	v := &c.matches[p.ID]
	if !v.Known {
		*v = p.MatchDevices(c.request)
	}
	return v
}

// inspect tests a node with every filter and counts it.
func (c *diagnosis) inspect(n *cluster.Node) {
	if n.Record == nil {
		return
	}
	c.total++
	m := c.reasonsFor(n)
	if m == 0 {
		room := n.RoomFor(c.request)
		if c.shape.SpreadsMembers() {
			room = min(room, 1)
		}
		c.fitted += room
	}
	c.tally(n.Pos, m, c.freeDevices(n))
}

// freeDevices returns the number of free devices of a node that pass the filters.
func (c *diagnosis) freeDevices(n *cluster.Node) int {
	return bits.OnesCount64(c.matchFor(n.Type).Fit & n.Free)
}

// reasonsFor returns all reasons that exclude a node.
func (c *diagnosis) reasonsFor(n *cluster.Node) cluster.Reasons {
	v := c.matchFor(n.Type)
	m := n.ReasonsAgainst(c.request, v)
	if m&cluster.StaticReasons == 0 && !c.feasible.Has(n.Pos) && !m.Has(cluster.ReasonAccelerator) && (!c.request.NeedsDevices() || v.Fit != 0) {
		m |= c.exclusionReason(n)
	}
	return m
}

// separateHeld separates held capacity from allocations. It counts an excluded node with
// holds under the reason that it has without them, or under ReasonHeld when it has none
// then: a user sees that the node has free capacity.
func (c *diagnosis) separateHeld(held []cluster.Delta) {
	var seen []*cluster.Node
	for i := range held {
		n := held[i].Node
		if slices.Contains(seen, n) {
			continue
		}
		seen = append(seen, n)
		apply := func(sign int) {
			for k := i; k < len(held); k++ {
				if held[k].Node == n {
					held[k].Apply(sign)
				}
			}
		}
		as := c.reasonsFor(n).First()
		apply(-1)
		is, free := c.reasonsFor(n).First(), c.freeDevices(n)
		apply(+1)
		if as == cluster.ReasonNone {
			continue
		}
		if is == cluster.ReasonBusyDevices {
			c.mostFree = max(c.mostFree, free)
		}
		if is == cluster.ReasonNone {
			is = cluster.ReasonHeld
		}
		c.counts[as]--
		c.counts[is]++
	}
}

// exclusionReason returns why a node that passes the static filters is not feasible: a
// reservation, or else affinity to other jobs.
func (c *diagnosis) exclusionReason(n *cluster.Node) cluster.Reasons {
	if c.windowOf(n.Pos) >= 0 {
		return cluster.ReasonReserved.Bit()
	}
	return cluster.ReasonJobAffinity.Bit()
}

// windowOf returns the index of the first blocking reservation that has the node, -1 for
// none.
func (c *diagnosis) windowOf(at int) int {
	return slices.IndexFunc(c.windows, func(v *window.Window) bool { return v.NodeSet.Has(at) })
}

// tally counts a node with its reasons and the number of its free devices.
func (c *diagnosis) tally(at int, m cluster.Reasons, free int) {
	first := m.First()
	c.counts[first]++
	if first == cluster.ReasonReserved {
		c.windowCounts[c.windowOf(at)]++
	}
	if first == cluster.ReasonBusyDevices {
		c.mostFree = max(c.mostFree, free)
	}
	if m == 0 {
		return
	}
	if c.last >= len(c.groups) || c.groups[c.last].reasons != m { // neighbouring nodes often have the same reasons
		c.last = slices.IndexFunc(c.groups, func(g reasonGroup) bool { return g.reasons == m })
		if c.last < 0 {
			c.last = len(c.groups)
			c.groups = append(c.groups, reasonGroup{reasons: m})
		}
	}
	g := &c.groups[c.last]
	g.count++
	lack := c.request.GPUs - free
	if len(g.nodes) == maxGroupNodes && lack >= g.missing[maxGroupNodes-1] {
		return
	}
	k := len(g.nodes)
	for k > 0 && g.missing[k-1] > lack {
		k--
	}
	g.nodes, g.missing = slices.Insert(g.nodes, k, c.state.cluster.Nodes[at]), slices.Insert(g.missing, k, lack)
	if len(g.nodes) > maxGroupNodes {
		g.nodes, g.missing = g.nodes[:maxGroupNodes], g.missing[:maxGroupNodes]
	}
}

// nodeBlockers returns the result of a diagnosis as blockers: the number of nodes by their
// first reason, and for a gang how many members fit. It is called for a job that could
// not be placed. model is gpu_model in the spelling of the job.
func (ex *Explainer) nodeBlockers(c *diagnosis, model string) []ares.Blocker {
	if c.total == 0 {
		return []ares.Blocker{{Kind: ares.BlockerNodes, Detail: "there are no nodes yet"}}
	}
	if ex.cluster.ExceedsLeafLimit(c.request) {
		return []ares.Blocker{{Kind: ares.BlockerNodes, Detail: fmt.Sprintf("one job may take %d %ss of a leaf at most, and one member asks for %d",
			ex.cluster.Topology.MaxGPUsPerLeaf, c.request.DeviceWord(), c.request.GPUs)}}
	}
	var out []ares.Blocker
	details := cluster.Details{Request: c.request, Model: model, MostFree: c.mostFree}
	for h, count := range c.counts {
		if cluster.Reason(h) == cluster.ReasonReserved {
			for i, n := range c.windowCounts {
				if n > 0 {
					out = append(out, ares.Blocker{Kind: ares.BlockerReservation, Count: n, Of: c.total, Detail: c.windows[i].BlockText(c.stay)})
				}
			}
			continue
		}
		if count > 0 && cluster.Reason(h) != cluster.ReasonNone {
			out = append(out, ares.Blocker{Kind: cluster.Filters[h].Kind, Count: count, Of: c.total, Detail: cluster.Filters[h].Text(&details)})
		}
	}
	if c.shape.Members > 1 && c.fitted > 0 {
		out = append(out, ex.gangBlocker(c))
	}
	return out
}
