package engine

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// maxWalked is how many jobs ahead of one get a place in time, to say when it
// has its own: what comes after as many is not foreseen, only that it is later.
// On large fleets it is fewer, since who asks holds up the next decision.
func (s *State) maxWalked() int {
	return min(MaxReserved, max(leastWalked, walkedNodes/max(len(s.nodes), 1)))
}

const (
	leastWalked = 4
	walkedNodes = 100_000 // times jobs
)

// walked is what a walk down the order found of a job.
type walked struct {
	at      int64 // its start; endless if that is not foreseen
	reached bool  // it was the job's turn within maxWalked
	blind   int   // jobs ahead of it for which nothing is foreseen
	ahead   int   // jobs ahead of it that have to start first
	place   ares.Merit
	by      [sources]int
	late    int
}

// eta is when the job is thought to start. Who is ahead of it in the order has
// its place first, and those who run leave as foreseen: sooner than nine of ten
// for the one end of the interval, and later for the other.
func (s *State) eta(e *entry, now time.Time) ares.ETA {
	out := ares.ETA{}
	if e.queue != inPending {
		out.Basis = "unknown: it is not in line yet"
		return out
	}
	if members, _ := s.allowed(e.shape, now); members == 0 {
		out.Basis = "unknown: it waits for something else than room on nodes"
		return out
	}
	if e.run != nil && e.run.Nominated != nil {
		return keptFor(e.run.Nominated, now)
	}
	late, early := s.walk(e, now, now, byLate), s.walk(e, now, now, byEarly)
	shut := s.shutFrom(e)
	opens := s.beyond(e, shut, now, &late, &early)
	if len(shut) > 0 && late.at == endless && early.at == endless && s.needsShut(e) {
		out.Earliest, out.Basis = later(now, shut[0].Until), s.calendar.words(shut[0])
		if !early.reached {
			out.Basis += "; " + s.unreached(early)
		}
		return out
	}
	if late.at <= now.UnixNano() && s.keepsSeats(now) {
		out.Earliest, out.Basis = now, "no latest time: when a gang that lost a node, or a job that is moved, has had its turn"
		return out
	}
	if early.at != endless {
		out.Earliest = later(now, time.Unix(0, max(early.at, now.UnixNano())).UTC())
	}
	if late.at != endless {
		out.Latest = later(out.Earliest, time.Unix(0, max(late.at, now.UnixNano())).UTC())
	}
	r := s.cfg.Reserving
	out.Reserved = late.at != endless && late.ahead == 0 && len(shut) == 0 && r.First > 0 && e.waited(now) >= r.After && s.reserving() == r && !s.Borrows(e.id)
	out.Basis = s.basis(e, late, early, now)
	if opens != nil {
		s.stays(e)
		out.Basis = strings.TrimSuffix("when nodes are open again that are "+s.calendar.words(opens)+"; "+out.Basis, "; ")
	}
	return out
}

// needsShut says whether the job has a place in the fleet, but none on the nodes that
// windows leave to it, even if nobody else were there: then it waits for the first to end.
func (s *State) needsShut(e *entry) bool {
	s.stays(e)
	w, least := e.shape.want, e.shape.least
	open, _ := s.reach(e.shape, w)
	return s.holds(open, w) < least && s.holds(&s.sift(w).nodes, w) >= least
}

// holds is how many members of a want the nodes of a set would take if they were empty.
func (s *State) holds(of *set, w *want) (members int) {
	for at := of.next(0); at >= 0; at = of.next(at + 1) {
		members += s.nodes[at].whole(w)
	}
	return members
}

// maxOpened is at the ends of how many windows a place is looked for: who asks holds up
// the next decision.
const maxOpened = 2

// beyond looks for an earlier start at the ends of the windows that keep a job off
// nodes, and is the window that it waits for then. Until it ends nobody can tell who
// of those it is for will be there: what is foreseen is that it is as it is now.
func (s *State) beyond(e *entry, shut []*window, now time.Time, late, early *walked) (opens *window) {
	sooner := func(by lens, v *window, than *walked) bool {
		w := s.walk(e, now, v.Until, by)
		if w.at == endless || max(w.at, v.Until.UnixNano()) >= than.at {
			return false
		}
		*than = w
		than.at = max(w.at, v.Until.UnixNano())
		return true
	}
	for _, v := range shut[:min(len(shut), maxOpened)] {
		if v.Until.UnixNano() < late.at && sooner(byLate, v, late) {
			opens = v
		}
		if v.Until.UnixNano() < early.at && sooner(byEarly, v, early) && late.at == endless {
			opens = v
		}
	}
	s.dated(now)
	return opens
}

// walk goes down the order until it comes to a job, and finds it a place in time
// behind those ahead of it, with the windows that there are at a time.
func (s *State) walk(e *entry, now, windows time.Time, by lens) walked {
	out, most := walked{at: endless}, s.maxWalked()
	t := s.begin()
	defer t.end()
	t.by, t.everybody, t.reserving = by, true, Reserving{First: most, After: -1 << 62}
	s.siftGains()
	s.atClock(now)
	defer t.letGo()
	t.uphold(&ares.Plan{Now: now}, nil, func(*entry, *ares.Placing, bool) bool { return true })
	s.dated(windows)
	pass := s.order.Begin(now)
	defer pass.End()
	t.turns(pass, &ares.Plan{Now: now}, func(o *entry, placing *ares.Placing, admitted bool) bool {
		out.reached = o == e
		mine := len(t.reserved) > 0 && t.reserved[len(t.reserved)-1].entry == o
		switch {
		case out.reached && placing != nil:
			out.at = now.UnixNano()
		case mine:
			r := &t.reserved[len(t.reserved)-1]
			out.at, out.place, out.by, out.late = r.at, r.merit, r.by, r.late
		case out.reached:
			out.at = endless
		case placing == nil && admitted:
			out.blind++
		}
		if !out.reached && placing == nil {
			out.ahead++
		}
		return !out.reached && len(t.reserved) < most && t.sought < 2*most
	})
	if out.reached || by == byEarly {
		return out // of the rest of the line it is not before the last that was walked
	}
	out.at = endless
	return out
}

// basis says in words what an ETA was drawn from.
func (s *State) basis(e *entry, late, early walked, now time.Time) string {
	var parts []string
	switch {
	case late.at == endless && early.reached && early.at == endless:
		return "unknown: " + s.unforeseen(e, now)
	case !early.reached && early.at == endless:
		return "unknown: " + s.unreached(early)
	case !early.reached:
		return "at the earliest: " + s.unreached(early)
	case late.at == endless && !late.reached:
		parts = append(parts, fmt.Sprintf("no latest time: more than %d jobs are before it", late.ahead))
	case late.at == endless:
		parts = append(parts, "no latest time: "+s.unforeseen(e, now))
	}
	place := late.place
	if late.at == endless {
		place = early.place
	}
	if place.Domain != "" {
		parts = append(parts, fmt.Sprintf("on %s %s", place.Level, place.Domain))
	}
	if late.ahead > 0 {
		parts = append(parts, "behind "+jobs(late.ahead)+" in line")
	}
	if ends := late.by[byForecast] + late.by[byLimit] + late.by[byGuess]; ends > 0 {
		parts = append(parts, "when "+seatsFree(ends)+" there: "+foreseenBy(late.by, ends))
	}
	if late.late > 0 {
		parts = append(parts, fmt.Sprintf("%d of these should be free by now: longer runs than foreseen", late.late))
	}
	if late.blind > 0 {
		parts = append(parts, "not counting "+jobs(late.blind)+" ahead of which nobody knows when they start")
	}
	return strings.Join(parts, "; ")
}

// unreached says why it was not the job's turn.
func (s *State) unreached(w walked) string {
	switch {
	case s.cfg.Queueing.Blocked != BlockedHold:
		return fmt.Sprintf("more than %d jobs are before it", w.ahead)
	case w.at == endless:
		return "a job ahead of it in its queue holds it up, and nobody knows until when"
	}
	return "a job ahead of it in its queue holds it up until then"
}

func seatsFree(n int) string {
	if n == 1 {
		return "1 seat comes free"
	}
	return fmt.Sprintf("%d seats come free", n)
}

// foreseenBy says what ends were foreseen by.
func foreseenBy(by [sources]int, ends int) string {
	var parts []string
	for i, words := range [sources]string{
		byForecast: "by forecasts", byLimit: "by their limits", byGuess: "by a guess (no runs like it are known)",
	} {
		switch by[i] {
		case 0:
		case ends:
			return words
		default:
			parts = append(parts, fmt.Sprintf("%d %s", by[i], words))
		}
	}
	return strings.Join(parts, ", ")
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// unforeseen says why nothing is foreseen for a job.
func (s *State) unforeseen(e *entry, now time.Time) string {
	w := e.shape.want
	s.stays(e)
	reach, ok := s.reach(e.shape, w)
	if !ok && len(s.bars(e.shape, &s.sift(w).nodes)) == 0 {
		return "no node is as it asks"
	}
	for at := reach.next(0); at >= 0; at = reach.next(at + 1) {
		n := s.nodes[at]
		if n.open() && len(s.departing(n, now, byLate).list) < len(n.sitters) {
			return fmt.Sprintf("nothing says when the jobs on node %s end", n.id)
		}
	}
	return "even when those have left who are foreseen to, it finds no place"
}
