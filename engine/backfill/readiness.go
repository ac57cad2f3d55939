package backfill

import (
	"cmp"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// nodeReadiness says when a node is expected to have capacity for 1, 2, ... members of a request, if no other job
// starts there.
type nodeReadiness struct {
	node    *cluster.Node
	members int                               // members that the caller wants to place on the node
	ready   []time.Duration                   // ready[i] is the time until i+1 members fit
	unknown int                               // entries of ready from this index on depend on a job without an estimated end
	gpus    [cluster.MaxDevices]time.Duration // the times at which the first, second, ... matching GPU is free, in order
	count   int                               // matching GPUs in the field `gpus`
	free    int                               // matching GPUs that are free now
}

// readyFor returns the time until the given number of members fit, and whether this time is estimated. The given
// number must not exceed len(ready); if it does, the last known time counts.
func (r *nodeReadiness) readyFor(members int) (left time.Duration, estimated bool) {
	at := min(members, len(r.ready)) - 1
	if at < 0 {
		return 0, false
	}
	return r.ready[at], at < r.unknown
}

// idleUntil returns the GPU time for which the given number of GPUs of the node is idle until the given time.
func (r *nodeReadiness) idleUntil(until time.Duration, gpus int) (idle time.Duration) {
	for _, free := range r.gpus[:min(gpus, r.count)] {
		idle += max(until-free, 0)
	}
	return idle
}

// minUnknown is the shortest remaining time that is assumed for a job without an estimated end.
const minUnknown = 10 * time.Minute

// remainingTime returns how long a seat is expected to stay taken. It is the p90 of the job's remaining runtime. A job
// that has no forecast and no limit, or that has run past its p90, is assumed to run at least as long again as it has
// run already. The second result is false for such an assumption.
func (b *Round) remainingTime(o *cluster.Occupant, now time.Time) (time.Duration, bool) {
	e := b.Jobs.Owner(*o)
	if e.Job == nil || e.Run == nil {
		return minUnknown, false
	}
	a := job.AttemptOf(e.Run, o.Seat)
	ends := e.ExpectedEnd(a, now, job.P90)
	ran := max(now.Sub(a.PlacedAt), minUnknown)
	switch _, p90 := e.RuntimeEstimate(); {
	case ends == job.AlreadyOver:
		return 0, true
	case ends == job.NoEnd:
		return ran, false
	case e.RuntimeSource() == job.FromGuess || e.Done(now) >= p90: // its estimate says nothing
		return max(time.Duration(ends-now.UnixNano()), ran), false
	}
	return time.Duration(ends - now.UnixNano()), true
}

// readinessOf computes the readiness of a node from the expected ends of the jobs that run there.
func (b *Round) readinessOf(n *cluster.Node, req *cluster.Request, now time.Time) nodeReadiness {
	type end struct {
		seat      *ares.Seat
		left      time.Duration
		estimated bool
	}
	r := nodeReadiness{node: n, unknown: cluster.MaxDevices + 1}
	ends := make([]end, 0, len(n.Occupants))
	for i := range n.Occupants {
		left, estimated := b.remainingTime(&n.Occupants[i], now)
		ends = append(ends, end{n.Occupants[i].Seat, left, estimated})
	}
	slices.SortFunc(ends, func(x, y end) int { // of equal times the order makes no difference, except that known ones count first
		if c := cmp.Compare(x.left, y.left); c != 0 || x.estimated == y.estimated {
			return c
		}
		if x.estimated {
			return -1
		}
		return 1
	})
	mask := req.DeviceMask(n.Type)
	for set := mask & n.Free; set != 0; set &= set - 1 {
		r.count++
	}
	r.free = r.count
	for room := n.RoomFor(req); len(r.ready) < room && len(r.ready) < cluster.MaxDevices; {
		r.ready = append(r.ready, 0)
	}
	known := true
	for k := range ends {
		if known = known && ends[k].estimated; !known {
			r.unknown = min(r.unknown, len(r.ready))
		}
		for i := range ends[k].seat.Shares {
			if bit := n.ShareBit(&ends[k].seat.Shares[i]); bit&mask&n.Usable != 0 && r.count < len(r.gpus) {
				r.gpus[r.count] = ends[k].left
				r.count++
			}
		}
		if k+1 < len(ends) && ends[k+1].left == ends[k].left {
			continue
		}
		room := n.RoomWithout(req, func(yield func(*ares.Seat) bool) {
			for i := range ends[:k+1] {
				if !yield(ends[i].seat) {
					return
				}
			}
		})
		for len(r.ready) < room && len(r.ready) < cluster.MaxDevices {
			r.ready = append(r.ready, ends[k].left)
		}
	}
	return r
}

// cheapestNodes chooses the domain in which holding nodes for the given number of members has the lowest price; see
// Hold.Price. It returns the nodes of this domain that the members need. To keep the search short, only nodes where few
// devices are missing are considered: enough of them for several times as many members.
func (b *Round) cheapestNodes(e *job.Entry, req *cluster.Request, feasible *cluster.Set, members int, now time.Time) []*cluster.Node {
	sh := e.Shape
	level := ares.Level("")
	if sh.Members > 1 {
		level = sh.Wish.Required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	var best []*cluster.Node
	least := -1.0
	b.shortage.clear(len(b.Cluster.Nodes))
	for lo := 0; lo < len(b.Cluster.Nodes); {
		hi := len(b.Cluster.Nodes)
		if level != "" {
			_, hi = b.Cluster.Domains.EnclosingDomain(lo, level)
		}
		list, capacity := b.nodeReadiness[:0], 0
		for at := range b.nodesByShortage(req, feasible, lo, hi) {
			if r := b.readinessOf(b.Cluster.Nodes[at], req, now); len(r.ready) > 0 {
				list = append(list, r)
				capacity += len(r.ready)
			}
			if capacity >= consideredPerMember*members+minConsidered {
				break
			}
		}
		b.nodeReadiness = list
		if capacity >= sh.MinMembers {
			for _, by := range [2]func(x, y holdStep) int{fewestMissing(max(e.Waited(now), longRunning)), earliest} {
				if c := chooseNodes(list, members, req.GPUs, by); (c.estimated || least < 0) && (least < 0 || c.price < least) {
					best, least = c.nodes, c.price
				}
			}
		}
		lo = hi
	}
	return best
}

// These constants limit the search. longRunning is how long a node may be expected to be taken before it is avoided.
const (
	consideredPerMember = 3
	minConsidered       = 32
	longRunning         = 24 * time.Hour
)

// A holdStep is capacity for one more member on a node.
type holdStep struct {
	at        int           // index in the list of nodes
	left      time.Duration // until the capacity is expected
	missing   int           // GPUs that must become free for it
	estimated bool
}

// fewestMissing orders steps by the GPUs that are missing. If running jobs have no estimates, this order keeps the
// nodes that earlier cycles have held. Nodes that are expected to be taken for longer than the given time are last.
func fewestMissing(long time.Duration) func(x, y holdStep) int {
	late := func(s holdStep) int {
		if s.left > long {
			return 1
		}
		return 0
	}
	return func(x, y holdStep) int {
		return cmp.Or(late(x)-late(y), cmp.Compare(x.missing, y.missing), cmp.Compare(x.left, y.left))
	}
}

// The function `earliest` orders steps by the expected time.
func earliest(x, y holdStep) int {
	return cmp.Or(cmp.Compare(x.left, y.left), cmp.Compare(x.missing, y.missing))
}

// A nodeChoice is a set of nodes on which a number of members fit after some time.
type nodeChoice struct {
	nodes     []*cluster.Node
	price     float64 // in GPU seconds
	estimated bool
}

// chooseNodes takes the first steps in the given order, up to the given number of members.
func chooseNodes(list []nodeReadiness, members, gpus int, by func(x, y holdStep) int) (c nodeChoice) {
	var steps []holdStep
	for i := range list {
		list[i].members = 0
		short := 0
		for k := range list[i].ready {
			before := short
			short = max((k+1)*gpus-list[i].free, 0)
			steps = append(steps, holdStep{i, list[i].ready[k], short - before, k < list[i].unknown})
		}
	}
	slices.SortStableFunc(steps, by)
	steps = steps[:min(len(steps), members)]
	until, missing := time.Duration(0), 0
	c.estimated = true
	for _, s := range steps {
		until, missing, c.estimated = max(until, s.left), missing+s.missing, c.estimated && s.estimated
		if list[s.at].members++; list[s.at].members == 1 {
			c.nodes = append(c.nodes, list[s.at].node)
		}
	}
	idle := time.Duration(0)
	for i := range list {
		if list[i].members > 0 {
			idle += list[i].idleUntil(until, list[i].members*gpus)
		}
	}
	c.price = idle.Seconds() * float64(missing) / float64(max(len(steps)*gpus, 1))
	return c
}
