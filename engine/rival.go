package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// rival is a running job as one decision sees it that looks for who could give
// way.
type rival struct {
	entry *entry
	lost  int64 // thousandths of GPU-seconds that stopping it costs
	milli int64 // thousandths of devices that it holds
	rank  int   // its class
	guard guard // what protects it
	until time.Time

	why    ares.YieldWhy // of the search under way
	search int           // the last one it was found eligible in
	gone   bool          // in the set that is being put together
	debts  []portionOf   // of what it holds, what is borrowed: by which account
}

// portionOf is a part of one of the debts of a search.
type portionOf struct {
	debt  int
	milli int64
}

// guard is what protects a running job.
type guard uint8

const (
	unguarded  guard = iota
	byOnce           // it runs at most once, and has begun
	byLatency        // it is latency sensitive: only critical ones stop it
	byCooldown       // it gave way, and has run again for a short time only
	byYields         // it gave way often enough
	byKept           // seats are kept for another where it sits, or its array is to end
)

// muster is who runs in a class, as a decision sees it. What is known of each is
// worked out once.
func (t *try) muster(rank int, now time.Time) []*entry {
	list := t.state.yard.running[rank]
	if t.mustered&(1<<rank) != 0 {
		return list
	}
	t.mustered |= 1 << rank
	rivals := make([]rival, len(list))
	for i, e := range list {
		r := &rivals[i]
		*r = rival{entry: e, rank: rank, milli: held(e), guard: unguarded}
		r.lost = t.state.losing(e, r.milli, now)
		r.guard, r.until = t.state.guarding(e, now)
		e.rival = r
		t.rivals = append(t.rivals, e)
	}
	return list
}

// disperse forgets what was worked out of running jobs.
func (t *try) disperse() {
	for i, e := range t.rivals {
		e.rival, t.rivals[i] = nil, nil
	}
	t.rivals, t.mustered = t.rivals[:0], 0
}

// held is what a job holds of devices, in thousandths.
func held(e *entry) int64 {
	h := &e.held.grant.Held
	return int64(h.GPUs)*wholeMilli + int64(h.GPUMilli)
}

// losing is what stopping a job costs, in thousandths of GPU-seconds: what it
// has done since its progress was last safe, and starting again.
func (s *State) losing(e *entry, milli int64, now time.Time) int64 {
	done := s.cfg.Yielding.Restart
	if kept := e.run.Current().Kept(); !kept.IsZero() {
		done += max(now.Sub(kept), 0)
	}
	return milli * int64(done/time.Second)
}

// guarding is what protects a running job, and until when if that passes.
func (s *State) guarding(e *entry, now time.Time) (guard, time.Time) {
	y, run := &s.cfg.Yielding, e.run
	if run.Endures(e.job) {
		return byOnce, time.Time{}
	}
	if s.doomed(e) {
		return byKept, time.Time{}
	}
	if e.run.Yields > 0 && y.Cooldown > 0 {
		a := run.Current()
		if until := later(a.PlacedAt, a.StartedAt).Add(y.Cooldown); now.Before(until) {
			return byCooldown, until
		}
	}
	switch {
	case y.MaxYields > 0 && run.Yields >= y.MaxYields:
		return byYields, time.Time{}
	case e.job.Placement.LatencySensitive:
		return byLatency, time.Time{}
	}
	return unguarded, time.Time{}
}

// yieldsTo says whether a job's protection lets one of a class stop it.
func (r *rival) yieldsTo(rank int) bool {
	return r.guard == unguarded || rank == classes-1 && r.guard == byLatency
}

// guards says in words how many are protected, by what.
type guards struct {
	count [byKept + 1]int
	until time.Time // the first cooldown's end
}

func (g *guards) note(r *rival) {
	g.count[r.guard]++
	if r.guard == byCooldown && (g.until.IsZero() || r.until.Before(g.until)) {
		g.until = r.until
	}
}

// words says why those who could be stopped are not.
func (g *guards) words(y *Yielding) string {
	var out string
	add := func(n int, one, many string) {
		if n == 0 {
			return
		}
		if out != "" {
			out += ", "
		}
		if n == 1 {
			out += "1 job " + one
		} else {
			out += fmt.Sprintf("%d jobs %s", n, many)
		}
	}
	until := g.until.UTC().Format(time.RFC3339)
	add(g.count[byCooldown], "gave way lately and is left alone until "+until, "gave way lately and are left alone, the first until "+until)
	add(g.count[byYields], fmt.Sprintf("has given way %d times", y.MaxYields), fmt.Sprintf("have given way %d times", y.MaxYields))
	add(g.count[byOnce], "runs at most once", "run at most once")
	add(g.count[byLatency], "is latency sensitive", "are latency sensitive")
	add(g.count[byKept], "sits where seats are kept for another", "sit where seats are kept for others")
	return out
}

// forebears are the jobs that a waiting one gave way to, those that these gave
// way to, and so on. None of them gives way to it in turn: so nobody ever
// stops, by however many others, whom it was stopped by.
func (s *State) forebears(e *entry, plan *ares.Plan) map[ares.JobID]bool {
	var out map[ares.JobID]bool
	var walk func(e *entry)
	add := func(y *ares.Yield) {
		if y == nil || out[y.To] {
			return
		}
		if out == nil {
			out = map[ares.JobID]bool{}
		}
		out[y.To] = true
		if next := s.jobs[y.To]; next != nil {
			walk(next)
		}
	}
	walk = func(e *entry) {
		if e.run == nil {
			return
		}
		for i := range e.run.Attempts {
			add(e.run.Attempts[i].Yield)
		}
		if e.run.Stop != nil {
			add(e.run.Stop.Yield)
		}
		for i := range plan.Stop { // two that are decided together must not close a circle either
			if plan.Stop[i].Job == e.id {
				add(plan.Stop[i].Stop.Yield)
			}
		}
	}
	walk(e)
	return out
}

// eligible marks who may give way to a job by some rights, and says whether
// anybody may. Protected ones are counted.
func (h *hunt) eligible(r rights) bool {
	t := h.try
	t.hunts++
	h.id, h.found, h.debts, h.guards = t.hunts, 0, h.debts[:0], guards{}
	most := 0
	if r&byClass != 0 {
		most = max(h.rank-1, 0)
	}
	if r&(byQuota|byMove) != 0 {
		most = classes
	}
	for rank := range most {
		for _, e := range t.muster(rank, h.now) {
			v := e.rival
			v.debts = v.debts[:0]
			switch {
			case r&byQuota != 0 && h.owes(v):
				v.why = ares.YieldQuota
			case r&byClass != 0 && rank <= h.rank-2:
				v.why = ares.YieldClass
			case r&byMove != 0 && h.movable(v):
				v.why = ares.YieldMove
			default:
				continue
			}
			if h.barred[e] {
				h.guards.count[byKept]++
				continue
			}
			if !v.yieldsTo(h.rank) {
				h.guards.note(v)
				continue
			}
			if h.forebears[e.id] || slices.Contains(t.leaving, e) {
				continue
			}
			v.search, v.gone = h.id, false
			h.found++
		}
	}
	return h.found > 0
}

// owes says whether all a job holds is borrowed from others, of models that the
// waiting one is promised, and notes by which accounts. One that could stop the
// waiting one by its class in turn is left alone: the two would take turns.
func (h *hunt) owes(v *rival) bool {
	if v.rank >= h.rank+2 || v.entry.shape.leaf == h.sh.leaf {
		return false
	}
	for _, part := range v.entry.held.grant.GPUs {
		d, ok := h.debtOf(v.entry.shape.leaf, part.Model)
		if !ok || h.promised&modelBit(part.Model) == 0 {
			return false // a part of it is its own
		}
		at := slices.IndexFunc(h.debts, func(o debt) bool { return o.Debt == d })
		if at < 0 {
			at = len(h.debts)
			h.debts = append(h.debts, debt{d, d.Over})
		}
		v.debts = append(v.debts, portionOf{at, part.Milli})
	}
	return len(v.debts) > 0
}

// debt is what is borrowed by one account, and what of it is left when those
// are gone who were chosen.
type debt struct {
	queue.Debt
	left int64
}

// debtKey names what a leaf owes of a model.
type debtKey struct {
	leaf  *leaf
	model int
}

// debtOf is what a leaf owes the waiting job's, worked out once: nothing, if the
// job asks for more than it was promised.
func (h *hunt) debtOf(l *leaf, model int) (queue.Debt, bool) {
	key := debtKey{l, model}
	d, known := h.owed[key]
	if !known {
		if room, ok := h.sh.leaf.Promised(model, l); ok && room >= h.sh.leastMilli() {
			d, _ = l.Debt(h.sh.leaf, model)
		}
		h.owed[key] = d
	}
	return d, d.Over > 0
}

// bySize is the order in which victims are written down, the smallest first: of who
// is borrowed in part only the last takes more than was lent.
func bySize(a, b *rival) int { return cmp.Or(cmp.Compare(a.milli, b.milli), byLoss(a, b)) }

// byLoss is the order of victims, those that lose the least first; of equals
// the one that started last.
func byLoss(a, b *rival) int {
	return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(a.milli, b.milli),
		b.entry.run.Current().PlacedAt.Compare(a.entry.run.Current().PlacedAt), cmp.Compare(a.entry.id, b.entry.id))
}
