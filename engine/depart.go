package engine

import (
	"cmp"
	"math"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// lens says by which prediction ends are foreseen.
type lens uint8

const (
	byHalf  lens = iota // as many end before as after
	byLate              // nine of ten end before
	byEarly             // one of ten ends before
	lenses
)

// Times are in nanoseconds since 1970 here: there are many to compare.
const (
	anyMoment = math.MinInt64 // it may be over now
	endless   = math.MaxInt64 // nobody knows when
)

// ends is when the attempt is foreseen to end, which a seat belongs to. It
// changes by events, and when it has passed and the attempt is still there.
func (e *entry) ends(a *ares.Attempt, now time.Time, by lens) int64 {
	if a.Ended() || e.run.Stop != nil {
		return anyMoment
	}
	half, late := e.runtime()
	done := e.done(now)
	if a.StartedAt.IsZero() { // on its way
		done += max(now.Sub(a.PlacedAt), 0)
	}
	if half == never {
		return endless
	}
	var left time.Duration
	switch by {
	case byEarly:
		if left = e.early() - done; left <= 0 {
			return anyMoment
		}
	case byLate:
		left = outlived(late, late, done)
	case byHalf, lenses:
		left = outlived(half, late, done)
	}
	return now.Add(left).UnixNano()
}

// overdue says whether the job has run for longer than was foreseen.
func (e *entry) overdue(now time.Time) bool {
	_, late := e.runtime()
	return late <= e.done(now)
}

// early is how long the job runs at least, as far as is known: a tenth end
// before, if runtimes scatter as much below the middle as above. A limit says
// nothing of the kind, and neither does a guess.
func (e *entry) early() time.Duration {
	f := e.forecast
	if f == nil || f.Samples == 0 || f.P90 <= 0 {
		return 0
	}
	half, late := int64(f.P50/time.Second), int64(max(f.P50, f.P90)/time.Second)
	if late == 0 || half > math.MaxInt32 {
		return 0
	}
	return time.Duration(half*half/late) * time.Second
}

// runs is how long a job runs that has not started, by a lens.
func (e *entry) runs(by lens) time.Duration {
	half, late := e.runtime()
	switch by {
	case byLate:
		return late
	case byEarly:
		if half != never {
			return e.early()
		}
	case byHalf, lenses:
	}
	return half
}

// source is what the end of a seat was foreseen by.
type source uint8

const (
	byForecast source = iota // runs like it that ended, or it is ending already
	byLimit                  // the limit its user gave it
	byGuess                  // nothing like it was ever seen: part of its limit, or of a day
	sources
)

// source is what says how long the job runs at most.
func (e *entry) source() source {
	limit := e.job.MaxRuntime()
	switch _, late := e.runtime(); {
	case e.forecast != nil && e.forecast.Samples > 0:
		return byForecast
	case limit > 0 && late >= limit:
		return byLimit
	}
	return byGuess
}

// departure is the end of a seat, and what the node has left then: of all who
// are foreseen to leave before, too.
type departure struct {
	at      int64
	seat    *ares.Seat
	from    int64  // when it was placed
	source  source // what says so
	overdue bool   // longer than it should be
	free    uint64 // devices
	cpus    int    // taken
	memory  int    // taken
	seats   int
}

// departures are the seats of one node that are foreseen to end, by their ends.
type departures struct {
	made  bool
	moves int   // node.moves as of which they are right
	until int64 // and until when
	list  []departure
}

// visitor is a seat that a reservation has on a node, while the next is sought.
type visitor struct {
	seat *ares.Seat
	at   int64 // when it will have ended

	source source
}

// departing is who is foreseen to leave the node, and what it has left then.
func (s *State) departing(n *node, now time.Time, by lens) *departures {
	d := &n.departs[by]
	if d.made && d.moves == n.moves && now.UnixNano() < d.until {
		return d
	}
	d.made, d.moves, d.until, d.list = true, n.moves, endless, d.list[:0]
	for _, sit := range n.sitters {
		e := sit.entry
		if e.job == nil || e.run == nil {
			continue
		}
		a := attemptOf(e.run, sit.seat)
		at := e.ends(a, now, by)
		if at == endless {
			continue
		}
		if at != anyMoment {
			d.until = min(d.until, at)
		}
		source := e.source()
		if e.run.Stop != nil || a.Ended() {
			source = byForecast
		}
		d.list = append(d.list, departure{
			at: at, seat: sit.seat, from: a.PlacedAt.UnixNano(), source: source, overdue: at != anyMoment && e.overdue(now),
		})
	}
	for _, v := range n.visitors {
		if v.at != endless {
			d.list = append(d.list, departure{at: v.at, seat: v.seat, from: now.UnixNano(), source: v.source})
		}
	}
	slices.SortFunc(d.list, byDeparture)
	n.foresee(d.list)
	return d
}

// byDeparture is the order of departures. Between seats that end together it
// does not matter which is first, only that it is always the same.
func byDeparture(a, b departure) int {
	if c := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.from, b.from), cmp.Compare(len(a.seat.Shares), len(b.seat.Shares))); c != 0 {
		return c
	}
	for i := range a.seat.Shares {
		if c := cmp.Or(cmp.Compare(a.seat.Shares[i].Index, b.seat.Shares[i].Index), cmp.Compare(a.seat.Shares[i].Device, b.seat.Shares[i].Device)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.seat.CPUs, b.seat.CPUs), cmp.Compare(a.seat.Memory, b.seat.Memory), cmp.Compare(a.seat.Rank, b.seat.Rank))
}

// attemptOf is the attempt that a seat is of.
func attemptOf(r *ares.Run, seat *ares.Seat) *ares.Attempt {
	for i := len(r.Attempts) - 1; i > 0; i-- {
		for k := range r.Attempts[i].Seats {
			if &r.Attempts[i].Seats[k].Seat == seat {
				return &r.Attempts[i]
			}
		}
	}
	return &r.Attempts[0]
}

// foresee writes down what the node has left after each departure.
func (n *node) foresee(list []departure) {
	var taken [MaxDevices]int
	for i := range n.devices {
		taken[i] = n.devices[i].taken
	}
	free, cpus, memory, seats := n.free, n.cpus, n.memory, n.seats
	for i := range list {
		d := &list[i]
		for k := range d.seat.Shares {
			at := n.spot(&d.seat.Shares[k])
			if at < 0 {
				continue
			}
			if taken[at] -= d.seat.Shares[k].Milli; taken[at] == 0 {
				free |= 1 << at & n.usable
			}
		}
		cpus, memory, seats = cpus-d.seat.CPUs, memory-d.seat.Memory, seats-1
		d.free, d.cpus, d.memory, d.seats = free, cpus, memory, seats
	}
}

// roomAfter is how many members of a want the node can take after the first k
// departures.
func (n *node) roomAfter(w *want, list []departure, k int) int {
	switch {
	case k == 0:
		return n.room(w)
	case w.milli > 0 || w.numa == numaRequired:
		return n.roomBeyond(w, list[:k])
	}
	d := &list[k-1]
	fit := MaxSeats - d.seats
	if w.cpus > 0 {
		fit = min(fit, (n.profile.cpus-d.cpus)/w.cpus)
	}
	if w.memory > 0 {
		fit = min(fit, (n.record.MemoryMB-d.memory)/w.memory)
	}
	if w.gpus > 0 {
		fit = min(fit, onesCount(w.mask(n.profile)&d.free)/w.gpus)
	}
	return max(fit, 0)
}

// roomBeyond is roomAfter where more counts than what is free.
func (n *node) roomBeyond(w *want, gone []departure) int {
	free, grew := n.free, n.grew
	for i := range gone {
		n.charge(gone[i].seat, -1)
	}
	n.free = gone[len(gone)-1].free
	room := n.room(w)
	for i := range gone {
		n.charge(gone[i].seat, +1)
	}
	n.free, n.grew = free, grew
	return room
}

// opensAt is when the node has room for one member of a want.
func (n *node) opensAt(w *want, list []departure) int64 {
	if n.room(w) > 0 {
		return anyMoment
	}
	if len(list) == 0 || n.roomAfter(w, list, len(list)) == 0 {
		return endless
	}
	lo, hi := 0, len(list) // no room after lo, room after hi
	for lo+1 < hi {
		if mid := (lo + hi) / 2; n.roomAfter(w, list, mid) > 0 {
			hi = mid
		} else {
			lo = mid
		}
	}
	return list[hi-1].at
}
