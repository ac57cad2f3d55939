package engine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// options are the single steps worth a trial, the cheapest first: what the
// job's owner can change, then what operators can, then what others would have
// to give. Each does away with everything that some node has against the job,
// or with one thing of it, so that two together may do. They are worked out as
// they are asked for.
func (c *consult) options() iter.Seq[ares.Step] {
	return func(yield func(ares.Step) bool) {
		var seen []string
		for steps := range c.batches() {
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

// batches are the options by what they are about.
func (c *consult) batches() iter.Seq[[]ares.Step] {
	return func(yield func([]ares.Step) bool) {
		if c.census.fitted > 0 && !yield(c.priorities()) || !yield(c.together()) {
			return
		}
		groups := slices.Clone(c.census.groups)
		slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(a.hurdles, b.hurdles) })
		for i := range groups {
			if !yield(c.relaxing(&groups[i])) {
				return
			}
		}
		if !yield(c.fewer()) || !yield(uncordoning(groups)) || !yield(c.opening()) {
			return
		}
		if step, ok := c.census.clearing(c.entry.job.Tenant); ok {
			yield([]ares.Step{step})
		}
	}
}

// uncordoning opens nodes that are cordoned, a few of each group.
func uncordoning(groups []group) []ares.Step {
	var out []ares.Step
	for i := range groups {
		if !groups[i].hurdles.has(isCordoned) {
			continue
		}
		for _, n := range groups[i].nodes[:min(len(groups[i].nodes), 3)] {
			out = append(out, ares.Step{Kind: ares.StepUncordon, Target: n.id, Text: "uncordon node " + n.id})
		}
	}
	return out
}

func dropped(field string) ares.Step {
	return ares.Step{Kind: ares.StepRelax, Field: field, Text: "drop " + field}
}

// together is what may be dropped of the wishes about all members.
func (c *consult) together() []ares.Step {
	var out []ares.Step
	wish, p := &c.entry.shape.wish, &c.entry.job.Placement
	if wish.required != "" && (c.entry.shape.members > 1 || wish.required == ares.LevelNUMA) {
		out = append(out, dropped("placement.required_level"))
	}
	if wish.gbps > 0 && c.entry.shape.members > 1 {
		out = append(out, dropped("placement.network_bandwidth"))
	}
	if p.LatencySensitive {
		out = append(out, dropped("placement.latency_sensitive"))
	}
	return out
}

// relaxing is what the job may do without to get past the hurdles of a group.
func (c *consult) relaxing(g *group) []ares.Step {
	job, w := c.entry.job, c.census.want
	out := c.lessOf(g)
	for _, h := range []struct {
		hurdle hurdle
		field  string
		set    bool
	}{
		{otherLabels, "placement.node_selector", !job.Required()},
		{otherConditions, "placement.node_affinity", true},
		{otherRegion, "placement.regions", true},
		{otherModel, "gpu_model", true},
		{smallDevices, "gpu_memory_mb", true},
		{otherKind, "mig_profile", w.mig != ""},
		{noNUMA, "numa_policy", job.NUMAPolicy == "required"},
		{badCompany, "placement.anti_affinity", len(c.entry.shape.apart) > 0},
		{badCompany, "placement.affinity", len(c.entry.shape.near) > 0},
	} {
		if h.set && g.hurdles.has(h.hurdle) {
			out = append(out, dropped(h.field))
		}
	}
	if g.hurdles.has(tainted) {
		out = append(out, tolerating(g.nodes[0], w))
	}
	return out
}

// lessOf is as much as the nodes of a group have free of what they have too little
// of.
func (c *consult) lessOf(g *group) []ares.Step {
	var out []ares.Step
	w := c.census.want
	small := g.hurdles.has(tooSmall)
	for _, less := range []struct {
		field, unit string
		of          bool // what may stand in the way
		asked, free int
	}{
		{"gpu_count", "GPU", (small || g.hurdles.has(busyDevices)) && w.mig == "", w.gpus, w.gpus - g.lacks[0]},
		{"cpu_cores", "core", small || g.hurdles.has(busyCPUs), w.cpus, most(g, func(n *node) int { return n.profile.cpus - n.cpus })},
		{"memory_mb", "MB of memory", small || g.hurdles.has(busyMemory), w.memory, most(g, func(n *node) int { return n.record.MemoryMB - n.memory })},
	} {
		if less.of && less.free > 0 && less.free < less.asked {
			out = append(out, ares.Step{Kind: ares.StepRelax, Field: less.field, Amount: less.free, Text: fmt.Sprintf("ask for %s (%s)", counted(less.free, less.unit), less.field)})
		}
	}
	return out
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n != 1 && !strings.HasPrefix(thing, "MB") {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func most(g *group, of func(*node) int) int {
	best := 0
	for _, n := range g.nodes {
		best = max(best, of(n))
	}
	return best
}

// tolerating lets the job onto a node with taints.
func tolerating(n *node, w *want) ares.Step {
	var words []string
	for _, t := range n.record.Taints {
		if t.Effect != ares.PreferNoSchedule && !w.tolerates(t) {
			words = append(words, t.String())
		}
	}
	value := strings.Join(words, ",")
	return ares.Step{Kind: ares.StepRelax, Field: "placement.tolerations", Value: value, Text: "tolerate " + value + " (placement.tolerations)"}
}

// fewer is the gang with as many members as find room or may run, and with one.
func (c *consult) fewer() []ares.Step {
	sh := c.entry.shape
	var out []ares.Step
	add := func(m int) {
		if m > 0 && m < sh.least && !slices.ContainsFunc(out, func(s ares.Step) bool { return s.Amount == m }) {
			out = append(out, ares.Step{Kind: ares.StepShrink, Amount: m, Text: "start with " + counted(m, "member")})
		}
	}
	if sh.members == 1 {
		return nil
	}
	allowed := sh.least - 1
	for allowed > 0 && len(sh.leaf.Shortfalls(sh.asks(allowed))) > 0 {
		allowed--
	}
	fitted := c.census.fitted
	if level := sh.wish.required; level != "" {
		fitted, _ = c.state.densest(c.census, level)
	}
	add(min(allowed, fitted))
	add(min(allowed, 1))
	return out
}

// priorities are the raises worth a trial, least first: for each class the
// priority that puts the job first in its queue, or into that class.
func (c *consult) priorities() []ares.Step {
	s, e := c.state, c.entry
	if e.queue == inNone {
		return nil
	}
	now := e.job.PriorityValue()
	top := ares.MaxPriority
	if t := e.shape.tenant.record; t != nil && t.PriorityTier != "" {
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
	if head, aged := c.head, s.order.Config().Aged; head != nil {
		add(now + aged(head.PriorityValue(), head.AcceptedAt, c.now) - aged(now, e.job.AcceptedAt, c.now) + 1)
	}
	for _, class := range ares.Classes() {
		add(class.Floor())
	}
	add(top)
	slices.SortFunc(out, func(a, b ares.Step) int { return a.Amount - b.Amount })
	return out
}

// another is so many more nodes of a kind there is that the members which lack
// would fit. It is false when no node would do even if it were empty.
func (c *census) another() (ares.Step, bool) {
	w := c.want
	var like *node
	most := 0
	for i := range c.groups {
		g := &c.groups[i]
		const lasting = 1<<otherLabels | 1<<otherConditions | 1<<otherRegion | 1<<tainted | 1<<otherKind | 1<<otherModel | 1<<smallDevices | 1<<overQuota | 1<<tooSmall | 1<<badCompany
		if g.hurdles&lasting != 0 {
			continue
		}
		for _, n := range g.nodes {
			if room := n.whole(w); room > most || room == most && like != nil && n.id < like.id {
				like, most = n, room
			}
		}
	}
	if like == nil {
		return ares.Step{}, false
	}
	if c.shape.repelsItself() {
		most = 1
	}
	lack := max(c.shape.least-c.fitted, 1)
	if level := c.shape.wish.required; level != "" && c.shape.members > 1 {
		if have, _ := c.state.densest(c, level); level.Rank() < ares.LevelNode.Rank() {
			lack = max(c.shape.least-have, 1)
		} else {
			lack = min(most, c.shape.least)
		}
	}
	count := (lack + most - 1) / most
	text := fmt.Sprintf("add %d nodes like %s", count, like.id)
	if count == 1 {
		text = "add a node like " + like.id
	}
	return ares.Step{Kind: ares.StepNode, Target: like.id, Amount: count, Text: text}, count <= maxAdded
}

// maxAdded is how many nodes a step may add.
const maxAdded = 64

// whole is how many members the node would take if it were empty and healthy.
func (n *node) whole(w *want) int {
	bare := node{record: n.record, profile: n.profile, devices: make([]device, len(n.devices)), usable: 1<<len(n.devices) - 1}
	bare.free = bare.usable
	return bare.room(w)
}
