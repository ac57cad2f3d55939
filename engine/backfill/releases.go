package backfill

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// expectedRelease is the expected release of a seat at the end of its job. An expectedRelease also holds the
// capacity that is free on the node after this release and all earlier releases.
type expectedRelease struct {
	at          int64
	seat        *ares.Seat
	placedAt    int64              // when the attempt was placed
	source      job.EstimateSource // source of the estimate
	overdue     bool               // the job has run longer than its estimate
	freeDevices uint64             // bit mask of the devices that are free after this release
	cpus        int                // still taken after this release
	memory      int                // still taken after this release
	seats       int                // still on the node after this release
}

// NodeReleases holds the expected releases of one node, ordered by time.
type NodeReleases struct {
	known      bool
	changes    int   // value of node.Changes for which the list is valid
	validUntil int64 // time of the next expected release
	List       []expectedRelease
}

// plannedSeat is a seat of an earlier reservation or nomination. A planned seat counts as taken while the next
// reservation is computed.
type plannedSeat struct {
	seat   *ares.Seat
	endsAt int64 // when the seat is expected to be released

	source job.EstimateSource
}

// nodeForecast holds the expected releases and planned seats of one node.
type nodeForecast struct {
	releases    [job.Quantiles]NodeReleases
	planned     []plannedSeat // used while a reservation is computed
	heldInCycle int           // the last cycle in which a reservation held parts of the node
}

// forecastOf returns the forecast of a node. Forecasts are stored by node position, and they are dropped when
// positions change.
func (b *Round) forecastOf(n *cluster.Node) *nodeForecast {
	if b.forecastLayout != b.Cluster.Layout {
		b.forecastLayout = b.Cluster.Layout
		b.forecasts = make([]nodeForecast, len(b.Cluster.Nodes))
	}
	return &b.forecasts[n.Pos]
}

// ReleasesOn returns the expected releases of a node, using the given quantile of the runtime estimates. The
// releases are cached until the node changes or the earliest release is due.
func (b *Round) ReleasesOn(n *cluster.Node, now time.Time, by job.Quantile) *NodeReleases {
	at := b.forecastOf(n)
	d := &at.releases[by]
	if d.known && d.changes == n.Changes && now.UnixNano() < d.validUntil {
		return d
	}
	d.known, d.changes, d.validUntil, d.List = true, n.Changes, job.NoEnd, d.List[:0]
	for _, occupant := range n.Occupants {
		e := b.Jobs.Owner(occupant)
		if e.Job == nil || e.Run == nil {
			continue
		}
		a := job.AttemptOf(e.Run, occupant.Seat)
		ends := e.ExpectedEnd(a, now, by)
		if ends == job.NoEnd {
			continue
		}
		if ends != job.AlreadyOver {
			d.validUntil = min(d.validUntil, ends)
		}
		source := e.RuntimeSource()
		if e.Run.Stop != nil || a.Ended() {
			source = job.FromForecast
		}
		d.List = append(d.List, expectedRelease{
			at: ends, seat: occupant.Seat, placedAt: a.PlacedAt.UnixNano(), source: source, overdue: ends != job.AlreadyOver && e.IsOverdue(now),
		})
	}
	for _, v := range at.planned {
		if v.endsAt != job.NoEnd {
			d.List = append(d.List, expectedRelease{at: v.endsAt, seat: v.seat, placedAt: now.UnixNano(), source: v.source})
		}
	}
	slices.SortFunc(d.List, compareReleases)
	accumulateReleases(n, d.List)
	return d
}

// compareReleases orders releases by time. If seats are released at the same time, any order is correct, but
// the order must always be the same.
func compareReleases(a, b expectedRelease) int {
	if c := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.placedAt, b.placedAt), cmp.Compare(len(a.seat.Shares), len(b.seat.Shares))); c != 0 {
		return c
	}
	for i := range a.seat.Shares {
		if c := cmp.Or(cmp.Compare(a.seat.Shares[i].Index, b.seat.Shares[i].Index), cmp.Compare(a.seat.Shares[i].Device, b.seat.Shares[i].Device)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(a.seat.MilliCPUs(), b.seat.MilliCPUs()), cmp.Compare(a.seat.Memory, b.seat.Memory), cmp.Compare(a.seat.Rank, b.seat.Rank))
}

// accumulateReleases computes the free capacity of the node after each release.
func accumulateReleases(n *cluster.Node, list []expectedRelease) {
	var taken [cluster.MaxDevices]int
	for i := range n.Devices {
		taken[i] = n.Devices[i].Taken
	}
	free, cpus, memory, seats := n.Free, n.MilliCPUs, n.Memory, n.Seats
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
		cpus, memory, seats = cpus-d.seat.MilliCPUs(), memory-d.seat.Memory, seats-1
		d.freeDevices, d.cpus, d.memory, d.seats = free, cpus, memory, seats
	}
}

// capacityAfter returns the number of members that fit on the node after the first k releases.
func capacityAfter(n *cluster.Node, req *cluster.Request, list []expectedRelease, k int) int {
	switch {
	case k == 0:
		return n.RoomFor(req)
	case req.Milli > 0 || req.NUMA == cluster.NUMARequired:
		return n.RoomWithout(req, seatsOfReleases(list[:k]))
	}
	d := &list[k-1]
	fit := n.SeatLimit - d.seats
	if req.MilliCPUs > 0 {
		fit = min(fit, (n.Type.MilliCPUs-d.cpus)/req.MilliCPUs)
	}
	if req.Memory > 0 {
		fit = min(fit, (n.Record.MemoryMB-d.memory)/req.Memory)
	}
	if req.GPUs > 0 {
		fit = min(fit, onesCount(req.DeviceMask(n.Type)&d.freeDevices)/req.GPUs)
	}
	return max(fit, 0)
}

// seatsOfReleases yields the seats that the given releases free.
func seatsOfReleases(of []expectedRelease) iter.Seq[*ares.Seat] {
	return func(yield func(*ares.Seat) bool) {
		for i := range of {
			if !yield(of[i].seat) {
				return
			}
		}
	}
}

// firstOpening returns when the node has capacity for one member of a request. The result is AlreadyOver if the
// node has capacity now, and NoEnd if the node has too little capacity even after all expected releases.
func firstOpening(n *cluster.Node, req *cluster.Request, list []expectedRelease) int64 {
	if n.RoomFor(req) > 0 {
		return job.AlreadyOver
	}
	if len(list) == 0 || capacityAfter(n, req, list, len(list)) == 0 {
		return job.NoEnd
	}
	lo, hi := 0, len(list) // invariant: no capacity after lo releases, enough capacity after hi
	for lo+1 < hi {
		if mid := (lo + hi) / 2; capacityAfter(n, req, list, mid) > 0 {
			hi = mid
		} else {
			lo = mid
		}
	}
	return list[hi-1].at
}
