package explain

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// remedyCandidates returns the single steps worth a trial, the cheapest first: changes
// by the owner of the job, then changes by operators, then the end of other jobs. Each
// step removes all reasons of some node, or one of them, so that two steps together may
// be enough. Steps are computed lazily, and each text occurs once.
func (c *remedySearch) remedyCandidates() iter.Seq[ares.Step] {
	return func(yield func(ares.Step) bool) {
		var seen []string
		for steps := range c.candidateBatches() {
			for _, st := range steps {
				if slices.Contains(seen, st.Text) {
					continue
				}
				seen = append(seen, st.Text)
				if !yield(st) {
					return
				}
			}
		}
	}
}

// candidateBatches returns the candidates in batches by subject.
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

// uncordonSteps returns the steps that uncordon a node, up to three for each group.
func uncordonSteps(groups []reasonGroup) []ares.Step {
	var out []ares.Step
	for i := range groups {
		if !groups[i].reasons.Has(cluster.ReasonCordoned) {
			continue
		}
		for _, n := range groups[i].nodes[:min(len(groups[i].nodes), 3)] {
			out = append(out, ares.Step{Kind: ares.StepUncordon, Target: n.ID, Text: "uncordon node " + n.ID})
		}
	}
	return out
}

func dropField(field string) ares.Step {
	return ares.Step{Kind: ares.StepRelax, Field: field, Text: "drop " + field}
}

// gangSteps returns the steps that drop a constraint on the placement of all members.
func (c *remedySearch) gangSteps() []ares.Step {
	var out []ares.Step
	wish, p := &c.entry.Shape.Wish, &c.entry.Job.Placement
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

// relaxSteps returns the changes of the job that may remove the reasons of a group.
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

// askLessSteps returns the steps that reduce an amount to what the nodes of a group have
// free, for each resource that is short there.
func (c *remedySearch) askLessSteps(g *reasonGroup) []ares.Step {
	var out []ares.Step
	w := c.diagnosis.request
	small := g.reasons.Has(cluster.ReasonTooSmall)
	for _, less := range []struct {
		field, unit string
		of          bool // the resource can be the reason
		asked, free int
	}{
		{"gpu_count", "GPU", (small || g.reasons.Has(cluster.ReasonBusyDevices)) && w.MIG == "", w.GPUs, w.GPUs - g.missing[0]},
		{"cpu_cores", "core", small || g.reasons.Has(cluster.ReasonBusyCPUs), w.CPUs, maxFree(g, func(n *cluster.Node) int { return n.Type.CPUs - n.CPUs })},
		{"memory_mb", "MB of memory", small || g.reasons.Has(cluster.ReasonBusyMemory), w.Memory, maxFree(g, func(n *cluster.Node) int { return n.Record.MemoryMB - n.Memory })},
	} {
		if less.of && less.free > 0 && less.free < less.asked {
			out = append(out, ares.Step{Kind: ares.StepRelax, Field: less.field, Amount: less.free, Text: fmt.Sprintf("ask for %s (%s)", countText(less.free, less.unit), less.field)})
		}
	}
	return out
}

// countText returns a number with its noun.
func countText(n int, thing string) string {
	if n != 1 && !strings.HasPrefix(thing, "MB") {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// maxFree returns the maximum of a free amount over the nodes of a group, and at least 0.
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
	return ares.Step{Kind: ares.StepRelax, Field: "placement.tolerations", Value: value, Text: "tolerate " + value + " (placement.tolerations)"}
}

// shrinkSteps returns the steps that start the gang with fewer members: as many as fit
// and the limits allow, and one.
func (c *remedySearch) shrinkSteps() []ares.Step {
	sh := c.entry.Shape
	var out []ares.Step
	add := func(m int) {
		if m > 0 && m < sh.MinMembers && !slices.ContainsFunc(out, func(s ares.Step) bool { return s.Amount == m }) {
			out = append(out, ares.Step{Kind: ares.StepShrink, Amount: m, Text: "start with " + countText(m, "member")})
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

// prioritySteps returns the higher priorities worth a trial, in ascending order: the one
// that puts the job before the first job of its tenant, the floor of each class, and the
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
			out = append(out, ares.Step{Kind: ares.StepPriority, Amount: p, Text: fmt.Sprintf("raise its priority to %d", p)})
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

// addNodesStep returns the step that adds enough nodes like an existing one for the
// missing members. It returns false when no existing node would fit a member even if it
// were empty, or when more than maxAdded nodes were needed.
func (c *diagnosis) addNodesStep() (ares.Step, bool) {
	w := c.request
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
	lack := max(c.shape.MinMembers-c.fitted, 1)
	if level := c.shape.Wish.Required; level != "" && c.shape.Members > 1 {
		if have, _ := c.state.densestDomain(c, level); level.Rank() < ares.LevelNode.Rank() {
			lack = max(c.shape.MinMembers-have, 1)
		} else {
			lack = min(most, c.shape.MinMembers)
		}
	}
	count := (lack + most - 1) / most
	text := fmt.Sprintf("add %d nodes like %s", count, like.ID)
	if count == 1 {
		text = "add a node like " + like.ID
	}
	return ares.Step{Kind: ares.StepNode, Target: like.ID, Amount: count, Text: text}, count <= maxAdded
}

// maxAdded is the maximum number of nodes that a step adds.
const maxAdded = 64
