package engine

import (
	"slices"
	"time"

	"cmp"

	ares "github.com/ares-scheduler/ares"
)

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

// roomWhen is how many members the node can take when all have left who do not
// run since before a time.
func (n *node) roomWhen(w *request, cut int64) int {
	free, grew := n.free, n.gainedRoom
	var gone []*ares.Seat
	for _, sit := range n.occupants {
		if sit.entry.run == nil || attemptOf(sit.entry.run, sit.seat).PlacedAt.UnixNano() >= cut {
			gone = append(gone, sit.seat)
		}
	}
	for _, seat := range gone {
		n.charge(seat, -1)
	}
	for i := range n.devices {
		if n.devices[i].taken == 0 {
			n.free |= 1 << i & n.usable
		}
	}
	room := n.roomFor(w)
	for _, seat := range gone {
		n.charge(seat, +1)
	}
	n.free, n.gainedRoom = free, grew
	return room
}
