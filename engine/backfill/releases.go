package backfill

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// expectedRelease is the end of a seat, and what the node has left then: of all who
// are foreseen to leave before, too.
type expectedRelease struct {
	at      int64
	seat    *ares.Seat
	from    int64              // when it was placed
	source  job.EstimateSource // what says so
	overdue bool               // longer than it should be
	free    uint64             // devices
	cpus    int                // taken
	memory  int                // taken
	seats   int
}

// nodeReleases are the seats of one node that are foreseen to end, by their ends.
type nodeReleases struct {
	known   bool
	changes int   // node.moves as of which they are right
	until   int64 // and until when
	List    []expectedRelease
}

// plannedSeat is a seat that a reservation has on a node, while the next is sought.
type plannedSeat struct {
	seat *ares.Seat
	at   int64 // when it will have ended

	source job.EstimateSource
}

// nodeForecast is what backfill expects of one node.
type nodeForecast struct {
	releases    [job.Quantiles]nodeReleases // of its seats
	planned     []plannedSeat               // while a reservation is sought
	heldInCycle int                         // the last cycle in which a reservation held something of it
}

// forecastOf is the forecast of a node. It is by position, and starts anew when
// nodes have other positions.
func (b *Round) forecastOf(n *cluster.Node) *nodeForecast {
	if b.forecastLayout != b.Cluster.Layout {
		b.forecastLayout = b.Cluster.Layout
		b.forecasts = make([]nodeForecast, len(b.Cluster.Nodes))
	}
	return &b.forecasts[n.Pos]
}

// ReleasesOn is who is foreseen to leave the node, and what it has left then.
func (b *Round) ReleasesOn(n *cluster.Node, now time.Time, by job.Quantile) *nodeReleases {
	at := b.forecastOf(n)
	d := &at.releases[by]
	if d.known && d.changes == n.Changes && now.UnixNano() < d.until {
		return d
	}
	d.known, d.changes, d.until, d.List = true, n.Changes, job.NoEnd, d.List[:0]
	for _, sit := range n.Occupants {
		e := b.Jobs.Owner(sit)
		if e.Job == nil || e.Run == nil {
			continue
		}
		a := job.AttemptOf(e.Run, sit.Seat)
		ends := e.ExpectedEnd(a, now, by)
		if ends == job.NoEnd {
			continue
		}
		if ends != job.AlreadyOver {
			d.until = min(d.until, ends)
		}
		source := e.RuntimeSource()
		if e.Run.Stop != nil || a.Ended() {
			source = job.FromForecast
		}
		d.List = append(d.List, expectedRelease{
			at: ends, seat: sit.Seat, from: a.PlacedAt.UnixNano(), source: source, overdue: ends != job.AlreadyOver && e.IsOverdue(now),
		})
	}
	for _, v := range at.planned {
		if v.at != job.NoEnd {
			d.List = append(d.List, expectedRelease{at: v.at, seat: v.seat, from: now.UnixNano(), source: v.source})
		}
	}
	slices.SortFunc(d.List, compareReleases)
	accumulateReleases(n, d.List)
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
func accumulateReleases(n *cluster.Node, list []expectedRelease) {
	var taken [cluster.MaxDevices]int
	for i := range n.Devices {
		taken[i] = n.Devices[i].Taken
	}
	free, cpus, memory, seats := n.Free, n.CPUs, n.Memory, n.Seats
	for i := range list {
		d := &list[i]
		for k := range d.seat.Shares {
			at := n.DeviceIndex(&d.seat.Shares[k])
			if at < 0 {
				continue
			}
			if taken[at] -= d.seat.Shares[k].Milli; taken[at] == 0 {
				free |= 1 << at & n.Usable
			}
		}
		cpus, memory, seats = cpus-d.seat.CPUs, memory-d.seat.Memory, seats-1
		d.free, d.cpus, d.memory, d.seats = free, cpus, memory, seats
	}
}

// roomAfter is how many members of a want the node can take after the first k
// departures.
func roomAfter(n *cluster.Node, w *cluster.Request, list []expectedRelease, k int) int {
	switch {
	case k == 0:
		return n.RoomFor(w)
	case w.Milli > 0 || w.NUMA == cluster.NUMARequired:
		return n.RoomWithout(w, seatsOfReleases(list[:k]))
	}
	d := &list[k-1]
	fit := cluster.MaxSeats - d.seats
	if w.CPUs > 0 {
		fit = min(fit, (n.Type.CPUs-d.cpus)/w.CPUs)
	}
	if w.Memory > 0 {
		fit = min(fit, (n.Record.MemoryMB-d.memory)/w.Memory)
	}
	if w.GPUs > 0 {
		fit = min(fit, onesCount(w.DeviceMask(n.Type)&d.free)/w.GPUs)
	}
	return max(fit, 0)
}

// seatsOfReleases yields the seats of some releases.
func seatsOfReleases(of []expectedRelease) iter.Seq[*ares.Seat] {
	return func(yield func(*ares.Seat) bool) {
		for i := range of {
			if !yield(of[i].seat) {
				return
			}
		}
	}
}

// opensAt is when the node has room for one member of a want.
func opensAt(n *cluster.Node, w *cluster.Request, list []expectedRelease) int64 {
	if n.RoomFor(w) > 0 {
		return job.AlreadyOver
	}
	if len(list) == 0 || roomAfter(n, w, list, len(list)) == 0 {
		return job.NoEnd
	}
	lo, hi := 0, len(list) // no room after lo, room after hi
	for lo+1 < hi {
		if mid := (lo + hi) / 2; roomAfter(n, w, list, mid) > 0 {
			hi = mid
		} else {
			lo = mid
		}
	}
	return list[hi-1].at
}

// roomWhen is how many members the node can take when all seats are free but those
// of attempts that were placed before cut.
func (b *Round) roomWhen(n *cluster.Node, w *cluster.Request, cut int64) int {
	return n.RoomWithout(w, func(yield func(*ares.Seat) bool) {
		for _, o := range n.Occupants {
			e := b.Jobs.Owner(o)
			if (e.Run == nil || job.AttemptOf(e.Run, o.Seat).PlacedAt.UnixNano() >= cut) && !yield(o.Seat) {
				return
			}
		}
	})
}
