package explain

import (
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// A diagnosis counts the nodes of the cluster by the reasons why they cannot run one member of a request.
type diagnosis struct {
	stay         window.Stay // when the job would start, and for how long
	state        *Explainer
	shape        *job.Shape
	request      *cluster.Request
	feasible     *cluster.Set
	total        int                      // nodes with a record
	counts       [cluster.ReasonCount]int // nodes by their first reason
	mostFree     int                      // largest number of free devices among the nodes with too few
	fitted       int                      // members that fit, summed over all nodes; of the best model if all need the same
	fittedMixed  int                      // members that would fit if they could have different models
	byModel      []modelFit               // members that fit by model; empty unless it matters
	ofGang       *cluster.Request         // the request for the best of byModel; without byModel, the request
	groups       []reasonGroup
	last         int                   // index of the group of the last tally
	matches      []cluster.DeviceMatch // by ID of the node type
	windows      []*window.Window      // reservations that block jobs of the shape
	windowCounts []int                 // for each of windows, the number of nodes that have it as the first reason
}

// reasonGroup holds the nodes that are excluded for the same set of reasons.
type reasonGroup struct {
	reasons cluster.Reasons
	count   int
	nodes   []*cluster.Node // up to maxGroupNodes of its nodes, those that lack the fewest devices
	missing []int           // devices that each of nodes lacks, in ascending order
}

// maxGroupNodes is the maximum number of nodes that a group lists.
const maxGroupNodes = 8

// The method `diagnose` checks for every node whether it can run one member of a job with the given Shape.
// The parameter `ban` holds the GPU models that are excluded because their quotas have too little capacity
// left. The method reads the summaries of nodes, and inspects a node only if its summary does not show the
// reasons.
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
	c.splitByModel()
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
			last, v, tight = g.Profile, c.matchFor(p), p.MilliCPUs < w.MilliCPUs || p.Memory < w.Memory
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
		if sp := &ex.cluster.FreeCPUMem[at]; int(sp.MilliCPUs) < w.MilliCPUs {
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

// matchFor returns the device match of a node type, and computes it only once.
func (c *diagnosis) matchFor(p *cluster.NodeType) *cluster.DeviceMatch {
	v := &c.matches[p.ID]
	if !v.Known {
		*v = p.MatchDevices(c.request)
	}
	return v
}

// The method `inspect` tests a node with every filter and counts it.
func (c *diagnosis) inspect(n *cluster.Node) {
	if n.Record == nil {
		return
	}
	c.total++
	m := c.reasonsFor(n)
	if m == 0 {
		c.countFitting(n)
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

// separateHeld distinguishes held capacity from allocations. Some of a node's free capacity may be held for other
// jobs. If a node is excluded only because of held capacity, it is counted under ReasonHeld. If the node would be
// excluded even if nothing were held, it is counted under the reason that would then apply. So the explanation
// does not say that held capacity is allocated.
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

// exclusionReason returns why a node that passes the static filters is not feasible. If a reservation on the node
// blocks the job, the reservation is the reason. If no reservation blocks the job, the reason is the job's
// affinity to other jobs.
func (c *diagnosis) exclusionReason(n *cluster.Node) cluster.Reasons {
	if c.windowOf(n.Pos) >= 0 {
		return cluster.ReasonReserved.Bit()
	}
	return cluster.ReasonJobAffinity.Bit()
}

// windowOf returns the index of the first blocking reservation that includes the node, or -1 if there is no such
// reservation.
func (c *diagnosis) windowOf(at int) int {
	return slices.IndexFunc(c.windows, func(v *window.Window) bool { return v.NodeSet.Has(at) })
}

// The method `tally` counts a node with its reasons and the number of its free devices.
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

// nodeBlockers takes the diagnosis of a job that could not be placed, and converts it to blockers. The
// blockers say how many nodes each reason excludes. A node with several reasons counts only under the first of
// them. For a gang, the blockers also say how many members fit. The parameter `model` is the value of
// gpu_model as written in the job.
func (ex *Explainer) nodeBlockers(c *diagnosis, model string) []ares.Blocker {
	if c.total == 0 {
		return []ares.Blocker{{Kind: ares.BlockerNodes, Detail: ares.PlainText("there are no nodes yet")}}
	}
	if ex.cluster.ExceedsLeafLimit(c.request) {
		return []ares.Blocker{{Kind: ares.BlockerNodes, Detail: ares.Textf("a job may have up to %d %ss of a leaf, and one member requests %d",
			ex.cluster.Topology.MaxGPUsPerLeaf, c.request.DeviceWord(), c.request.GPUs)}}
	}
	var out []ares.Blocker
	details := cluster.Details{Request: c.request, Model: model, MostFree: c.mostFree, SeatLimit: ex.cfg.RankLimit()}
	if c.shape.Wish.Latency {
		details.OneNUMAFor = "latency_sensitive"
	}
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
			out = append(out, ares.Blocker{Kind: cluster.Filters[h].Kind, Count: count, Of: c.total, Detail: ares.PlainText(cluster.Filters[h].Text(&details))})
		}
	}
	if c.shape.Members > 1 && c.fittedMixed > 0 {
		out = append(out, ex.gangBlocker(c))
	}
	return out
}
