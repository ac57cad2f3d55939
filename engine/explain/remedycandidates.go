package explain

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// remedyCandidates returns the single steps that are worth a trial, cheapest first. Changes by the owner of the job
// come first, then changes by operators, then steps that end other jobs. A step may remove all reasons that exclude
// a node. It may also remove only one of these reasons, because two such steps together may be enough. Steps are
// computed lazily, and no two steps have the same text.
func (c *remedySearch) remedyCandidates() iter.Seq[ares.Step] {
	return func(yield func(ares.Step) bool) {
		var seen []string
		for steps := range c.candidateBatches() {
			for _, st := range steps {
				text := st.Text.String()
				if slices.Contains(seen, text) {
					continue
				}
				seen = append(seen, text)
				if !yield(st) {
					return
				}
			}
		}
	}
}

// candidateBatches returns the candidate steps in batches, one for each kind of change.
func (c *remedySearch) candidateBatches() iter.Seq[[]ares.Step] {
	return func(yield func([]ares.Step) bool) {
		if c.diagnosis.fitted > 0 && !yield(c.prioritySteps()) || !yield(c.gangSteps()) {
			return
		}
		groups := slices.Clone(c.diagnosis.groups)
		slices.SortStableFunc(groups, func(a, b reasonGroup) int { return cmp.Compare(a.reasons, b.reasons) })
		for i := range groups {
			if !yield(c.relaxSteps(&groups[i])) {
				return
			}
		}
		if !yield(c.shrinkSteps()) || !yield(uncordonSteps(groups)) || !yield(c.openModelSteps()) {
			return
		}
		if step, ok := c.diagnosis.freeNodesStep(c.entry.Job.Tenant); ok {
			yield([]ares.Step{step})
		}
	}
}

// uncordonSteps returns the steps that uncordon a node, up to three for each group of excluded nodes.
func uncordonSteps(groups []reasonGroup) []ares.Step {
	var out []ares.Step
	for i := range groups {
		if !groups[i].reasons.Has(cluster.ReasonCordoned) {
			continue
		}
		for _, n := range groups[i].nodes[:min(len(groups[i].nodes), 3)] {
			out = append(out, ares.Step{Kind: ares.StepUncordon, Target: ares.NodeRef(n.ID), Text: ares.Textf("uncordon node %s", ares.NodeRef(n.ID))})
		}
	}
	return out
}

func dropField(field string) ares.Step {
	return ares.Step{Kind: ares.StepRelax, Field: field, Text: ares.Textf("drop %s", field)}
}

// gangSteps returns the steps that drop a placement constraint on the gang as a whole.
func (c *remedySearch) gangSteps() []ares.Step {
	var out []ares.Step
	wish, p := &c.entry.Shape.Wish, c.entry.Job.Placement()
	if len(c.diagnosis.byModel) > 0 && c.diagnosis.fittedMixed > c.diagnosis.fitted {
		out = append(out, mixModelsStep())
	}
	if wish.Required != "" && (c.entry.Shape.Members > 1 || wish.Required == ares.LevelNUMA) {
		out = append(out, dropField("placement.required_level"))
	}
	if wish.Gbps > 0 && c.entry.Shape.Members > 1 {
		out = append(out, dropField("placement.network_bandwidth"))
	}
	if p.LatencySensitive {
		out = append(out, dropField("placement.latency_sensitive"))
	}
	return out
}

// relaxSteps returns the changes to the job that may remove the reasons why a group of nodes is excluded.
func (c *remedySearch) relaxSteps(g *reasonGroup) []ares.Step {
	job, w := c.entry.Job, c.diagnosis.request
	out := c.askLessSteps(g)
	for i := range cluster.Filters {
		f := &cluster.Filters[i]
		if !g.reasons.Has(f.Reason) {
			continue
		}
		for _, d := range f.Drop {
			if d.If == nil || d.If(job) {
				out = append(out, dropField(d.Field))
			}
		}
	}
	if g.reasons.Has(cluster.ReasonTaint) {
		out = append(out, tolerateStep(g.nodes[0], w))
	}
	return out
}

// askLessSteps returns the steps that reduce the job's request. For each resource that is
// short on the nodes of a group, one step reduces the requested amount to the free amount.
func (c *remedySearch) askLessSteps(g *reasonGroup) []ares.Step {
	var out []ares.Step
	w := c.diagnosis.request
	small := g.reasons.Has(cluster.ReasonTooSmall)
	for _, less := range []struct {
		field, unit string
		of          bool // whether this resource can be the reason
		asked, free int
	}{
		{"gpu_count", "GPU", (small || g.reasons.Has(cluster.ReasonBusyDevices)) && w.MIG == "", w.GPUs, w.GPUs - g.missing[0]},
		{"cpu_cores", "core", small || g.reasons.Has(cluster.ReasonBusyCPUs), ares.RoundUpCPUs(w.MilliCPUs), maxFree(g, func(n *cluster.Node) int { return (n.Type.MilliCPUs - n.MilliCPUs) / 1000 })},
		{"memory_mb", "MB of memory", small || g.reasons.Has(cluster.ReasonBusyMemory), w.Memory, maxFree(g, func(n *cluster.Node) int { return n.Record.MemoryMB - n.Memory })},
	} {
		if less.of && less.free > 0 && less.free < less.asked {
			out = append(out, ares.Step{Kind: ares.StepRelax, Field: less.field, Amount: less.free, Text: ares.Textf("request %s (%s)", countText(less.free, less.unit), less.field)})
		}
	}
	return out
}

// countText returns a number and a noun, such as "3 nodes".
func countText(n int, thing string) string {
	if n != 1 && !strings.HasPrefix(thing, "MB") {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// maxFree returns the maximum of a free amount over the nodes of a group. The result is 0 or more.
func maxFree(g *reasonGroup, of func(*cluster.Node) int) int {
	best := 0
	for _, n := range g.nodes {
		best = max(best, of(n))
	}
	return best
}

// tolerateStep returns the step that tolerates all taints of a node.
func tolerateStep(n *cluster.Node, w *cluster.Request) ares.Step {
	var words []string
	for _, t := range n.Record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.Tolerates(t) {
			words = append(words, t.String())
		}
	}
	value := strings.Join(words, ",")
	return ares.Step{Kind: ares.StepRelax, Field: "placement.tolerations", Value: value, Text: ares.Textf("tolerate %s (placement.tolerations)", value)}
}

// shrinkSteps returns the steps that start the gang with fewer members. One step starts as many members as fit
// within the limits, and another step starts a single member.
func (c *remedySearch) shrinkSteps() []ares.Step {
	sh := c.entry.Shape
	var out []ares.Step
	add := func(m int) {
		if m > 0 && m < sh.MinMembers && !slices.ContainsFunc(out, func(s ares.Step) bool { return s.Amount == m }) {
			out = append(out, ares.Step{Kind: ares.StepShrink, Amount: m, Text: ares.Textf("start with %s", countText(m, "member"))})
		}
	}
	if sh.Members == 1 {
		return nil
	}
	allowed := sh.MinMembers - 1
	for allowed > 0 && len(sh.Leaf.LimitShortfalls(sh.Use(allowed))) > 0 {
		allowed--
	}
	fitted := c.diagnosis.fitted
	if level := sh.Wish.Required; level != "" {
		fitted, _ = c.state.densestDomain(c.diagnosis, level)
	}
	add(min(allowed, fitted))
	add(min(allowed, 1))
	return out
}

// prioritySteps returns the higher priorities that are worth a trial, in ascending order. One of them puts the
// job ahead of the first waiting job of its tenant. The others are the lowest priority of each class, and the
// maximum that the tenant allows.
func (c *remedySearch) prioritySteps() []ares.Step {
	e := c.entry
	if e.Queue == job.InNone {
		return nil
	}
	now := e.Job.PriorityValue()
	top := ares.MaxPriority
	if t := e.Shape.Tenant.Record; t != nil && t.PriorityTier != "" {
		if r := t.PriorityTier.Rank() + 1; r < len(ares.Classes()) {
			top = ares.Classes()[r].Floor() - 1
		}
	}
	var out []ares.Step
	add := func(p int) {
		if p > now && p <= top && !slices.ContainsFunc(out, func(s ares.Step) bool { return s.Amount == p }) {
			out = append(out, ares.Step{Kind: ares.StepPriority, Amount: p, Text: ares.Textf("raise its priority to %d", p)})
		}
	}
	if head, aged := c.head, c.state.jobs.Queues.Config().AgedPriority; head != nil {
		add(now + aged(head.PriorityValue(), head.AcceptedAt, c.now) - aged(now, e.Job.AcceptedAt, c.now) + 1)
	}
	for _, class := range ares.Classes() {
		add(class.Floor())
	}
	add(top)
	slices.SortFunc(out, func(a, b ares.Step) int { return a.Amount - b.Amount })
	return out
}

// addNodesStep returns the step that adds enough nodes for the missing members. The new nodes are copies of an
// existing node. The result is false if more than maxAdded nodes would be needed. It is also false if a member
// would fit on no existing node, even if that node were empty.
func (c *diagnosis) addNodesStep() (ares.Step, bool) {
	var best ares.Step
	found := false
	for _, v := range c.gangRequests() {
		if step, ok := c.addNodesFor(&v); ok && (!found || step.Amount < best.Amount) {
			best, found = step, true
		}
	}
	return best, found
}

// addNodesFor returns the step that adds enough nodes for the missing members, if all members use one request.
func (c *diagnosis) addNodesFor(v *modelFit) (ares.Step, bool) {
	w := v.request
	var like *cluster.Node
	most := 0
	for i := range c.groups {
		g := &c.groups[i]
		if g.reasons&cluster.LastingReasons != 0 {
			continue
		}
		for _, n := range g.nodes {
			if room := n.EmptyRoom(w); room > most || room == most && like != nil && n.ID < like.ID {
				like, most = n, room
			}
		}
	}
	if like == nil {
		return ares.Step{}, false
	}
	if c.shape.SpreadsMembers() {
		most = 1
	}
	lack := max(c.shape.MinMembers-v.fitted, 1)
	if level := c.shape.Wish.Required; level != "" && c.shape.Members > 1 {
		if have, _ := c.state.densestDomain(c, level); level.Rank() < ares.LevelNode.Rank() {
			lack = max(c.shape.MinMembers-have, 1)
		} else {
			lack = min(most, c.shape.MinMembers)
		}
	}
	count := (lack + most - 1) / most
	ref := ares.NodeRef(like.ID)
	text := ares.Textf("add %d nodes like %s", count, ref)
	if count == 1 {
		text = ares.Textf("add a node like %s", ref)
	}
	return ares.Step{Kind: ares.StepNode, Target: ref, Amount: count, Text: text}, count <= maxAdded
}

// maxAdded is the maximum number of nodes that a step adds.
const maxAdded = 64
