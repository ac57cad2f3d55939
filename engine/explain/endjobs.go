package explain

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/preempt"
)

// maxEnded is the largest number of jobs that one step may end.
const maxEnded = 16

// victimsOf returns the jobs with a live attempt on the node. Jobs of the given tenant come before jobs of other
// tenants. Within each of these two groups, jobs with a smaller GPU share on the node come first.
func victimsOf(table *job.Table, n *cluster.Node, tenant string) []preempt.NodeVictim {
	var out []preempt.NodeVictim
	for _, occupant := range n.Occupants {
		e := table.Owner(occupant)
		if e.Job == nil || e.Run.Current() == nil {
			continue
		}
		at := slices.IndexFunc(out, func(g preempt.NodeVictim) bool { return g.Entry == e })
		if at < 0 {
			at = len(out)
			out = append(out, preempt.NodeVictim{Entry: e, Own: e.Job.Tenant == tenant})
		}
		out[at].Seats = append(out[at].Seats, occupant.Seat)
		for _, sh := range occupant.Seat.Shares {
			out[at].Milli += sh.Milli
		}
	}
	slices.SortFunc(out, func(a, b preempt.NodeVictim) int {
		if a.Own != b.Own {
			return map[bool]int{true: -1, false: 1}[a.Own]
		}
		return cmp.Or(a.Milli-b.Milli, cmp.Compare(a.Entry.ID, b.Entry.ID))
	})
	return out
}

// fewestToEnd returns a small set of jobs that must end so that the given number of members fits on the node. If
// ending one job is enough, the set has only one job. The result is nil if no job runs on the node, or if ending
// all its jobs is not enough.
func fewestToEnd(table *job.Table, n *cluster.Node, w *cluster.Request, tenant string, members int) []preempt.NodeVictim {
	all := victimsOf(table, n, tenant)
	if len(all) == 0 || n.RoomWithout(w, preempt.SeatsOf(all)) < members {
		return nil
	}
	for i := range all {
		if n.RoomWithout(w, preempt.SeatsOf(all[i:i+1])) >= members {
			return all[i : i+1 : i+1]
		}
	}
	// Add the largest jobs until the members fit, then drop the jobs that are not
	// needed.
	slices.SortStableFunc(all, func(a, b preempt.NodeVictim) int { return b.Milli - a.Milli })
	k := 1
	for n.RoomWithout(w, preempt.SeatsOf(all[:k])) < members {
		k++
	}
	leave := all[:k]
	for i := 0; i < len(leave) && len(leave) > 1; {
		if rest := slices.Delete(slices.Clone(leave), i, i+1); n.RoomWithout(w, preempt.SeatsOf(rest)) >= members {
			leave = rest
		} else {
			i++
		}
	}
	return leave
}

// endStep returns the step that ends the given jobs to free capacity on their nodes.
func endStep(leave []preempt.NodeVictim, nodes []*cluster.Node) ares.Step {
	step := ares.Step{Kind: ares.StepFree}
	var names []string
	var own []ares.Ref
	others, milli := 0, 0
	for _, n := range nodes {
		names = append(names, n.ID)
	}
	for _, g := range leave {
		if slices.Contains(step.Jobs, g.Entry.ID) {
			continue
		}
		step.Jobs = append(step.Jobs, g.Entry.ID)
		if g.Own {
			own = append(own, g.Entry.Job.Ref())
		} else {
			others++
		}
	}
	for _, g := range leave {
		milli += g.Milli
	}
	slices.Sort(step.Jobs)
	slices.SortFunc(own, func(a, b ares.Ref) int { return cmp.Compare(a.ID, b.ID) })
	step.Target, step.Amount = ares.NodeRef(strings.Join(names, ",")), (milli+cluster.WholeMilli-1)/cluster.WholeMilli
	step.Text = endStepText(own, others, step.Amount, ares.NodeRef(strings.Join(names, ", ")))
	if len(own) == 1 && others == 0 {
		step.Kind, step.Target = ares.StepEnd, own[0]
	}
	return step
}

// endStepText describes which jobs have to end, and how much that frees. The text names the jobs of the
// waiting job's tenant, but only counts the jobs of other tenants.
func endStepText(own []ares.Ref, others, gpus int, where ares.Ref) ares.Text {
	var ends []ares.Text
	for i, ref := range own {
		if i == 0 {
			ends = append(ends, ares.Textf("end %s", ref))
		} else {
			ends[0] = ares.Textf("%s, %s", ends[0], ref)
		}
	}
	switch others {
	case 0:
	case 1:
		ends = append(ends, ares.PlainText("a job of another tenant has to end"))
	default:
		ends = append(ends, ares.Textf("%d jobs of other tenants have to end", others))
	}
	freed := fmt.Sprintf("%d GPUs become free", gpus)
	switch gpus {
	case 0:
		freed = "CPUs and memory become free"
	case 1:
		freed = "1 GPU becomes free"
	}
	return ares.Textf("%s: %s on %s", ares.JoinTexts(ends, ", and "), freed, where)
}

// freeNodesStep returns the step that ends a few jobs on feasible nodes so that the missing members fit. If no
// step frees enough capacity, freeNodesStep returns false.
func (c *diagnosis) freeNodesStep(tenant string) (ares.Step, bool) {
	lack := max(c.shape.MinMembers-c.fitted, 1)
	if c.shape.Members == 1 {
		return c.freeOneNodeStep(tenant)
	}
	lo, hi := 0, len(c.state.cluster.Nodes)
	if level := c.shape.Wish.Required; level != "" {
		lo, hi, lack = c.bestDomain(level)
	}
	var leave []preempt.NodeVictim
	var nodes []*cluster.Node
	looked := 0
	for at := c.feasible.Next(lo); at >= 0 && at < hi && lack > 0 && looked < holderNodes; at = c.feasible.Next(at + 1) {
		n := c.state.cluster.Nodes[at]
		if !n.Schedulable() {
			continue
		}
		looked++
		has := n.RoomFor(c.ofGang)
		more := n.RoomWithout(c.ofGang, preempt.SeatsOf(victimsOf(c.state.jobs, n, tenant))) - has
		if more = min(more, lack); more <= 0 || c.shape.SpreadsMembers() && has > 0 {
			continue
		}
		going := fewestToEnd(c.state.jobs, n, c.ofGang, tenant, has+more)
		if len(leave)+len(going) > maxEnded {
			continue
		}
		leave, nodes, lack = append(leave, going...), append(nodes, n), lack-more
	}
	if lack > 0 || len(leave) == 0 {
		return ares.Step{}, false
	}
	return endStep(leave, nodes), true
}

// freeOneNodeStep does the work of freeNodesStep for a job of one member. It frees the node where the fewest
// jobs have to end. If several nodes are equal in this respect, freeOneNodeStep frees the node where the
// fewest of these jobs belong to other tenants.
func (c *diagnosis) freeOneNodeStep(tenant string) (ares.Step, bool) {
	var best []preempt.NodeVictim
	var at *cluster.Node
	for i := range c.groups {
		if c.groups[i].reasons&^cluster.BusyReasons != 0 {
			continue
		}
		for _, n := range c.groups[i].nodes {
			leave := fewestToEnd(c.state.jobs, n, c.request, tenant, 1)
			if len(leave) > 0 && len(leave) <= maxEnded && (best == nil || endsFewer(leave, best)) {
				best, at = leave, n
			}
		}
	}
	if best == nil {
		return ares.Step{}, false
	}
	return endStep(best, []*cluster.Node{at}), true
}

// endsFewer reports whether step a ends fewer jobs than step b. If both steps end the same number of jobs, the
// step that ends fewer jobs of other tenants is preferred. If these numbers are equal too, the step whose jobs
// hold the smaller GPU share is preferred.
func endsFewer(a, b []preempt.NodeVictim) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	count := func(l []preempt.NodeVictim) (theirs, milli int) {
		for _, g := range l {
			milli += g.Milli
			if !g.Own {
				theirs++
			}
		}
		return theirs, milli
	}
	at, am := count(a)
	bt, bm := count(b)
	return cmp.Or(at-bt, am-bm) < 0
}

// Among the domains of one level, bestDomain finds the domain in which the most members fit. The results are the
// node range of this domain and the number of members that do not fit there.
func (c *diagnosis) bestDomain(level ares.Level) (lo, hi, lack int) {
	most := -1
	for at := 0; at < len(c.state.cluster.Nodes); {
		_, end := c.state.cluster.Domains.EnclosingDomain(at, level)
		room := 0
		for i := at; i < end; i++ {
			if n := c.state.cluster.Nodes[i]; n.Schedulable() && c.feasible.Has(i) {
				// Free capacity has more weight than devices that jobs hold.
				room += 1000*n.RoomFor(c.ofGang) + bits.OnesCount64(c.matchFor(n.Type).Fit&n.Usable)
			}
		}
		if room > most {
			most, lo, hi = room, at, end
		}
		at = end
	}
	fitted := 0
	for i := lo; i < hi; i++ {
		if n := c.state.cluster.Nodes[i]; n.Schedulable() && c.feasible.Has(i) {
			fitted += n.RoomFor(c.ofGang)
		}
	}
	return lo, hi, max(c.shape.MinMembers-fitted, 1)
}

// A single limit or quota may keep a job waiting. For this case, endOwnJobSteps returns steps that each end one
// other job of the same tenant. The job to end is the smallest job that holds at least the requested amount. If
// no job holds the requested amount, the largest job is chosen.
func (c *remedySearch) endOwnJobSteps(musts []ares.Step) []ares.Step {
	if len(musts) != 1 || musts[0].Kind != ares.StepLimit && musts[0].Kind != ares.StepQuota || musts[0].Field == ares.LimitGPUHours {
		return nil
	}
	sh := c.entry.Shape
	size := func(u ares.Use) int { return u.GPUs*cluster.WholeMilli + u.GPUMilli }
	asked := size(sh.Use(sh.MinMembers))
	var best *job.Entry
	for _, e := range sh.Tenant.Active { // order-free: finds the minimum of a total order
		if e.Run.Current() == nil {
			continue
		}
		if best == nil {
			best = e
			continue
		}
		a, b := size(e.Held.Allocation.ForLimits), size(best.Held.Allocation.ForLimits)
		better := a > b // if neither job holds enough, the larger one is better
		if b >= asked {
			better = a >= asked && a < b
		}
		if better || a == b && e.ID < best.ID {
			best = e
		}
	}
	if best == nil {
		return nil
	}
	return []ares.Step{{
		Kind: ares.StepEnd, Target: best.Job.Ref(), Jobs: []ares.JobID{best.ID},
		Amount: (size(best.Held.Allocation.ForLimits) + cluster.WholeMilli - 1) / cluster.WholeMilli, Text: ares.Textf("end %s", best.Job.Ref()),
	}}
}
