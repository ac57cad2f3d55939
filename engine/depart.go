package engine

import (
	"cmp"
	"math"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// quantile says by which prediction ends are foreseen.
type quantile uint8

const (
	p50 quantile = iota // as many end before as after
	p90                 // nine of ten end before
	p10                 // one of ten ends before
	quantiles
)

// Times are in nanoseconds since 1970 here: there are many to compare.
const (
	alreadyOver = math.MinInt64 // it may be over now
	noEnd       = math.MaxInt64 // nobody knows when
)

// expectedEnd is when the attempt is foreseen to end, which a seat belongs to. It
// changes by events, and when it has passed and the attempt is still there.
func (e *entry) expectedEnd(a *ares.Attempt, now time.Time, by quantile) int64 {
	if a.Ended() || e.run.Stop != nil {
		return alreadyOver
	}
	half, late := e.runtimeEstimate()
	done := e.done(now)
	if a.StartedAt.IsZero() { // on its way
		done += max(now.Sub(a.PlacedAt), 0)
	}
	if half == forever {
		return noEnd
	}
	var left time.Duration
	switch by {
	case p10:
		if left = e.p10Runtime() - done; left <= 0 {
			return alreadyOver
		}
	case p90:
		left = remainingAfter(late, late, done)
	case p50, quantiles:
		left = remainingAfter(half, late, done)
	}
	return now.Add(left).UnixNano()
}

// isOverdue says whether the job has run for longer than was foreseen.
func (e *entry) isOverdue(now time.Time) bool {
	_, late := e.runtimeEstimate()
	return late <= e.done(now)
}

// p10Runtime is how long the job runs at least, as far as is known: a tenth end
// before, if runtimes scatter as much below the middle as above. A limit says
// nothing of the kind, and neither does a guess.
func (e *entry) p10Runtime() time.Duration {
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

// expectedRuntime is how long a job runs that has not started, by a lens.
func (e *entry) expectedRuntime(by quantile) time.Duration {
	half, late := e.runtimeEstimate()
	switch by {
	case p90:
		return late
	case p10:
		if half != forever {
			return e.p10Runtime()
		}
	case p50, quantiles:
	}
	return half
}

// estimateSource is what the end of a seat was foreseen by.
type estimateSource uint8

const (
	fromForecast estimateSource = iota // runs like it that ended, or it is ending already
	fromLimit                          // the limit its user gave it
	fromGuess                          // nothing like it was ever seen: part of its limit, or of a day
	estimateSources
)

// runtimeSource is what says how long the job runs at most.
func (e *entry) runtimeSource() estimateSource {
	limit := e.job.MaxRuntime()
	switch _, late := e.runtimeEstimate(); {
	case e.forecast != nil && e.forecast.Samples > 0:
		return fromForecast
	case limit > 0 && late >= limit:
		return fromLimit
	}
	return fromGuess
}

// expectedRelease is the end of a seat, and what the node has left then: of all who
// are foreseen to leave before, too.
type expectedRelease struct {
	at      int64
	seat    *ares.Seat
	from    int64          // when it was placed
	source  estimateSource // what says so
	overdue bool           // longer than it should be
	free    uint64         // devices
	cpus    int            // taken
	memory  int            // taken
	seats   int
}

// nodeReleases are the seats of one node that are foreseen to end, by their ends.
type nodeReleases struct {
	known   bool
	changes int   // node.moves as of which they are right
	until   int64 // and until when
	list    []expectedRelease
}

// plannedSeat is a seat that a reservation has on a node, while the next is sought.
type plannedSeat struct {
	seat *ares.Seat
	at   int64 // when it will have ended

	source estimateSource
}

// releasesOn is who is foreseen to leave the node, and what it has left then.
func (b *backfillRound) releasesOn(n *node, now time.Time, by quantile) *nodeReleases {
	d := &n.releases[by]
	if d.known && d.changes == n.changes && now.UnixNano() < d.until {
		return d
	}
	d.known, d.changes, d.until, d.list = true, n.changes, noEnd, d.list[:0]
	for _, sit := range n.occupants {
		e := sit.entry
		if e.job == nil || e.run == nil {
			continue
		}
		a := attemptOf(e.run, sit.seat)
		at := e.expectedEnd(a, now, by)
		if at == noEnd {
			continue
		}
		if at != alreadyOver {
			d.until = min(d.until, at)
		}
		source := e.runtimeSource()
		if e.run.Stop != nil || a.Ended() {
			source = fromForecast
		}
		d.list = append(d.list, expectedRelease{
			at: at, seat: sit.seat, from: a.PlacedAt.UnixNano(), source: source, overdue: at != alreadyOver && e.isOverdue(now),
		})
	}
	for _, v := range n.plannedSeats {
		if v.at != noEnd {
			d.list = append(d.list, expectedRelease{at: v.at, seat: v.seat, from: now.UnixNano(), source: v.source})
		}
	}
	slices.SortFunc(d.list, compareReleases)
	n.accumulateReleases(d.list)
	return d
}

// compareReleases is the order of departures. Between seats that end together it
// does not matter which is first, only that it is always the same.
func compareReleases(a, b expectedRelease) int {
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

// accumulateReleases writes down what the node has left after each departure.
func (n *node) accumulateReleases(list []expectedRelease) {
	var taken [MaxDevices]int
	for i := range n.devices {
		taken[i] = n.devices[i].taken
	}
	free, cpus, memory, seats := n.free, n.cpus, n.memory, n.seats
	for i := range list {
		d := &list[i]
		for k := range d.seat.Shares {
			at := n.deviceIndex(&d.seat.Shares[k])
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
func (n *node) roomAfter(w *request, list []expectedRelease, k int) int {
	switch {
	case k == 0:
		return n.roomFor(w)
	case w.milli > 0 || w.numa == numaRequired:
		return n.roomWithoutReleases(w, list[:k])
	}
	d := &list[k-1]
	fit := MaxSeats - d.seats
	if w.cpus > 0 {
		fit = min(fit, (n.typ.cpus-d.cpus)/w.cpus)
	}
	if w.memory > 0 {
		fit = min(fit, (n.record.MemoryMB-d.memory)/w.memory)
	}
	if w.gpus > 0 {
		fit = min(fit, onesCount(w.deviceMask(n.typ)&d.free)/w.gpus)
	}
	return max(fit, 0)
}

// roomWithoutReleases is roomAfter where more counts than what is free.
func (n *node) roomWithoutReleases(w *request, gone []expectedRelease) int {
	free, grew := n.free, n.gainedRoom
	for i := range gone {
		n.charge(gone[i].seat, -1)
	}
	n.free = gone[len(gone)-1].free
	room := n.roomFor(w)
	for i := range gone {
		n.charge(gone[i].seat, +1)
	}
	n.free, n.gainedRoom = free, grew
	return room
}

// opensAt is when the node has room for one member of a want.
func (n *node) opensAt(w *request, list []expectedRelease) int64 {
	if n.roomFor(w) > 0 {
		return alreadyOver
	}
	if len(list) == 0 || n.roomAfter(w, list, len(list)) == 0 {
		return noEnd
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
