package laws

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// kept says whether the placing is on exactly the seats that were kept for the
// job: it is not its turn that gives it those.
func (p *placed) kept() bool {
	n := p.run.Nominated
	return n != nil && slices.EqualFunc(n.Seats, p.Seats, func(a, b ares.Seat) bool {
		return a.Node == b.Node && a.Rank == b.Rank && slices.Equal(a.Shares, b.Shares)
	})
}

// yields judges who is asked to give way, and by what right.
func yields(t *trial) error {
	for i := range t.plan.Stop {
		stop := &t.plan.Stop[i]
		if stop.Stop.Why != ares.StopPreempt {
			continue
		}
		y := stop.Stop.Yield
		if y == nil || stop.Stop.By != "job "+string(y.To) || !t.listed(stop.Job, y) {
			return fmt.Errorf("%s gives way, and no nomination says why", stop.Job)
		}
		job, known := t.state.Job(stop.Job)
		to, waits := t.state.Job(y.To)
		if !known || !waits {
			return fmt.Errorf("%s gives way to %q", stop.Job, y.To)
		}
		run, _ := t.state.Run(stop.Job)
		waiting, _ := t.state.Run(to.ID)
		switch {
		case run.Current() == nil || run.Stop != nil || !waiting.Phase.Waiting():
			return fmt.Errorf("%s, which is %s, gives way to %s, which is %s", job.ID, run.Phase, to.ID, waiting.Phase)
		case run.Endures(job):
			return fmt.Errorf("%s gives way, and runs at most once", job.ID)
		}
		if waiting.Nominated != nil {
			continue // its right was judged when it was nominated
		}
		if err := t.right(job, &run, to, y); err != nil {
			return err
		}
	}
	return nil
}

// listed says whether a nomination has the job as a victim with this reckoning.
func (t *trial) listed(id ares.JobID, y *ares.Yield) bool {
	in := func(n *ares.Nomination) bool {
		return slices.ContainsFunc(n.Victims, func(v ares.Victim) bool { return v.Job == id && v.Yield == *y })
	}
	for i := range t.plan.Nominate {
		if n := &t.plan.Nominate[i]; n.Job == y.To && in(&n.Nomination) {
			return true
		}
	}
	run, ok := t.state.Run(y.To)
	return ok && run.Nominated != nil && in(run.Nominated)
}

// right judges by what right one job stops another.
func (t *trial) right(job *ares.Job, run *ares.Run, to *ares.Job, y *ares.Yield) error {
	cfg := t.cfg.Yielding
	mine, its := ares.ClassOf(to.PriorityValue()), ares.ClassOf(job.PriorityValue())
	if job.Placement.LatencySensitive && mine != ares.Critical {
		return fmt.Errorf("%s gives way to %s of class %s, and is latency sensitive", job.ID, to.ID, mine)
	}
	if cfg.MaxYields > 0 && run.Yields >= cfg.MaxYields && mine != ares.Critical {
		return fmt.Errorf("%s gives way to %s, and has given way %d times", job.ID, to.ID, run.Yields)
	}
	a := run.Current()
	if since := later(a.PlacedAt, a.StartedAt); run.Yields > 0 && t.plan.Now.Before(since.Add(cfg.Cooldown)) {
		return fmt.Errorf("%s gives way to %s, and runs again since %s only", job.ID, to.ID, since)
	}
	switch y.Why {
	case ares.YieldClass:
		if record := t.tenants[to.Tenant]; !cfg.Enabled || record == nil || !record.MayPreempt || mine.Rank() < its.Rank()+2 {
			return fmt.Errorf("%s of class %s gives way to %s of class %s", job.ID, its, to.ID, mine)
		}
	case ares.YieldQuota:
		if !cfg.Enabled {
			return fmt.Errorf("%s gives way to %s, and nobody should", job.ID, to.ID)
		}
		return t.reclaims(job, to)
	case ares.YieldOrder:
		switch {
		case !t.cfg.Queueing.Yield || job.Tenant != to.Tenant || job.Queue != to.Queue || mine != its:
			return fmt.Errorf("%s gives way to %s of another queue or class", job.ID, to.ID)
		case !job.Checkpoint.Enabled:
			return fmt.Errorf("%s gives way to %s, and keeps no progress", job.ID, to.ID)
		case !t.outranks(to, job):
			return fmt.Errorf("%s gives way to %s, which does not come before it", job.ID, to.ID)
		}
	default:
		return fmt.Errorf("%s gives way to %s by %q", job.ID, to.ID, y.Why)
	}
	return nil
}

// outranks says whether a waiting job comes before a running one by the
// configured order, or has waited for long enough beside it.
func (t *trial) outranks(to, job *ares.Job) bool {
	mine, its := t.measure(to), t.measure(job)
	if patience := t.cfg.Queueing.PeersAfter; patience > 0 && mine == its && to.Revision < job.Revision {
		since := to.AcceptedAt
		if run, ok := t.state.Run(to.ID); ok && run.Last() != nil {
			since = later(since, run.Last().EndedAt)
		}
		return t.plan.Now.Sub(since) >= patience
	}
	return mine < its
}

// ceiling judges how much is stopped for what is asked.
func ceiling(t *trial) error {
	for i := range t.plan.Nominate {
		n := &t.plan.Nominate[i]
		asked, stopped := int64(0), int64(0)
		for k := range n.Nomination.Seats {
			asked += milliOf(&n.Nomination.Seats[k])
		}
		for _, v := range n.Nomination.Victims {
			run, _ := t.state.Run(v.Job)
			held := int64(0)
			if a := run.Current(); a != nil {
				for k := range a.Seats {
					if !a.Seats[k].State.Settled() {
						held += milliOf(&a.Seats[k].Seat)
					}
				}
			}
			if v.Yield.Milli != held || v.Yield.Asked != asked {
				return fmt.Errorf("%s gives up %d/1000 for %d/1000, the reckoning says %d/1000 for %d/1000", v.Job, held, asked, v.Yield.Milli, v.Yield.Asked)
			}
			stopped += held
		}
		if most := t.cfg.Yielding.Ceiling; most > 0 && stopped*1000 > int64(most)*asked {
			return fmt.Errorf("for %s, which asks for %d/1000, %d/1000 are stopped", n.Job, asked, stopped)
		}
	}
	return nil
}

func milliOf(s *ares.Seat) (milli int64) {
	for _, sh := range s.Shares {
		milli += int64(sh.Milli)
	}
	return milli
}

// seatKey is a device of a node.
type seatKey struct{ node, device string }

// nominations judges the seats that are kept.
func nominations(t *trial) error {
	given := map[seatKey]int{}
	for i := range t.plan.Place {
		for k := range t.plan.Place[i].Seats {
			seat := &t.plan.Place[i].Seats[k]
			for _, sh := range seat.Shares {
				given[seatKey{seat.Node, sh.Device}] += sh.Milli
			}
		}
	}
	live := 0
	for id, n := range t.live() { // order-free: any broken law will do
		live++
		for k := range n.Seats {
			for _, sh := range n.Seats[k].Shares {
				key := seatKey{n.Seats[k].Node, sh.Device}
				if given[key] > 0 && given[key]+sh.Milli > 1000 {
					return fmt.Errorf("device %s of node %s is kept for %s and given to another", sh.Device, key.node, id)
				}
			}
		}
	}
	if len(t.plan.Nominate) > 0 && live > engine.MaxNominations {
		return fmt.Errorf("seats are kept for %d jobs at once", live)
	}
	for i := range t.plan.Nominate {
		if err := t.sitters(&t.plan.Nominate[i]); err != nil {
			return err
		}
	}
	return nil
}

// live are the nominations that stand after the plan, but for those whose seats
// it gives.
func (t *trial) live() map[ares.JobID]*ares.Nomination {
	out := map[ares.JobID]*ares.Nomination{}
	for job, run := range t.state.Jobs() {
		if run != nil && run.Nominated != nil && t.waits(job, run) {
			out[job.ID] = run.Nominated
		}
	}
	for i := range t.plan.Nominate {
		out[t.plan.Nominate[i].Job] = &t.plan.Nominate[i].Nomination
	}
	for i := range t.plan.Withdraw {
		delete(out, t.plan.Withdraw[i].Job)
	}
	for i := range t.plan.Place {
		delete(out, t.plan.Place[i].Job)
	}
	return out
}

// sitters wants the victims of a nomination to be those who sit where it keeps
// seats, and whom nobody stops yet.
func (t *trial) sitters(n *ares.Nominating) error {
	nodes, devices := map[string]bool{}, map[seatKey]bool{}
	for k := range n.Nomination.Seats {
		seat := &n.Nomination.Seats[k]
		nodes[seat.Node] = true
		for _, sh := range seat.Shares {
			if sh.Milli == 1000 {
				devices[seatKey{seat.Node, sh.Device}] = true
			}
		}
	}
	victims := map[ares.JobID]bool{}
	for _, v := range n.Nomination.Victims {
		run, ok := t.state.Run(v.Job)
		a := run.Current()
		if !ok || a == nil || a.Fence != v.Fence || run.Stop != nil {
			return fmt.Errorf("%s is to give way to %s, and does not run", v.Job, n.Job)
		}
		if !slices.ContainsFunc(a.Seats, func(h ares.Held) bool { return nodes[h.Node] }) {
			return fmt.Errorf("%s is to give way to %s, and sits elsewhere", v.Job, n.Job)
		}
		victims[v.Job] = true
	}
	if len(victims) == 0 {
		return nil // those who are there go by themselves
	}
	going := map[ares.JobID]bool{}
	for i := range t.plan.Stop {
		going[t.plan.Stop[i].Job] = true
	}
	for _, h := range t.holders {
		if run, _ := t.state.Run(h.job.ID); victims[h.job.ID] || going[h.job.ID] || !h.live || run.Current() == nil || run.Stop != nil {
			continue
		}
		for _, sh := range h.seat.Shares {
			if devices[seatKey{h.seat.Node, sh.Device}] {
				return fmt.Errorf("%s sits on device %s of node %s, which is kept for %s, and does not give way", h.job.ID, sh.Device, h.seat.Node, n.Job)
			}
		}
	}
	return nil
}

// circles wants no job to give way to one that gave way to it.
func circles(t *trial) error {
	to := map[ares.JobID][]ares.JobID{}
	note := func(id ares.JobID, y *ares.Yield) {
		if y != nil {
			to[id] = append(to[id], y.To)
		}
	}
	for job, run := range t.state.Jobs() {
		if run == nil {
			continue
		}
		for i := range run.Attempts {
			note(job.ID, run.Attempts[i].Yield)
		}
		if run.Stop != nil {
			note(job.ID, run.Stop.Yield)
		}
	}
	for i := range t.plan.Stop {
		note(t.plan.Stop[i].Job, t.plan.Stop[i].Stop.Yield)
	}
	state := map[ares.JobID]int{} // 1: on the way, 2: done
	var walk func(id ares.JobID) error
	walk = func(id ares.JobID) error {
		switch state[id] {
		case 1:
			return fmt.Errorf("%s gives way to itself, by others", id)
		case 2:
			return nil
		}
		state[id] = 1
		for _, next := range to[id] {
			if err := walk(next); err != nil {
				return err
			}
		}
		state[id] = 2
		return nil
	}
	for id := range to { // order-free: any broken law will do
		if err := walk(id); err != nil {
			return err
		}
	}
	return nil
}
