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

// remedyCandidates are the single steps worth a trial, the cheapest first: what the
// job's owner can change, then what operators can, then what others would have
// to give. Each does away with everything that some node has against the job,
// or with one thing of it, so that two together may do. They are worked out as
// they are asked for.
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

// candidateBatches are the options by what they are about.
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

// uncordonSteps opens nodes that are cordoned, a few of each group.
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

// gangSteps is what may be dropped of the wishes about all members.
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

// relaxSteps is what the job may do without to get past the hurdles of a group.
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

// askLessSteps is as much as the nodes of a group have free of what they have too little
// of.
func (c *remedySearch) askLessSteps(g *reasonGroup) []ares.Step {
	var out []ares.Step
	w := c.diagnosis.request
	small := g.reasons.Has(cluster.ReasonTooSmall)
	for _, less := range []struct {
		field, unit string
		of          bool // what may stand in the way
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

// countText is a number of things.
func countText(n int, thing string) string {
	if n != 1 && !strings.HasPrefix(thing, "MB") {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func maxFree(g *reasonGroup, of func(*cluster.Node) int) int {
	best := 0
	for _, n := range g.nodes {
		best = max(best, of(n))
	}
	return best
}

// tolerateStep lets the job onto a node with taints.
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

// shrinkSteps is the gang with as many members as find room or may run, and with one.
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

// prioritySteps are the raises worth a trial, least first: for each class the
// priority that puts the job first in its queue, or into that class.
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

// addNodesStep is so many more nodes of a kind there is that the members which lack
// would fit. It is false when no node would do even if it were empty.
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

// maxAdded is how many nodes a step may add.
const maxAdded = 64
