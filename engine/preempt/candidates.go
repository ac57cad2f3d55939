package preempt

import (
	"iter"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// candidateVictim is a running job that may become a victim.
type candidateVictim struct {
	entry          *job.Entry
	cost           int64 // cost of stopping it, in thousandths of GPU-seconds
	milli          int64 // thousandths of devices that it holds
	rank           int   // rank of its class
	protection     protection
	protectedUntil time.Time // end of protectedCooldown

	// The following fields are valid only in the current search.
	reason        ares.PreemptionBasis // the right to stop it
	eligibleIn    int                  // ID of the last search in which it was eligible
	chosen        bool                 // it is in the set being selected
	borrowedParts []borrowedPart       // the borrowed quota that it holds
}

// loadVictims returns the running jobs of a class. On first use, loadVictims computes for each job what its
// preemption costs, and whether it is protected.
func (r *Round) loadVictims(rank int, now time.Time) []*job.Entry {
	for len(r.victimBySlot) < len(r.Jobs.Slots) {
		r.victimBySlot = append(r.victimBySlot, nil)
	}
	list := r.Jobs.Running.Running[rank]
	if r.loadedClasses&(1<<rank) != 0 {
		return list
	}
	r.loadedClasses |= 1 << rank
	victims := make([]candidateVictim, len(list))
	for i, e := range list {
		v := &victims[i]
		*v = candidateVictim{entry: e, rank: rank, milli: job.HeldMilli(e), protection: unprotected}
		v.cost = r.preemptionCost(e, v.milli, now)
		v.protection, v.protectedUntil = r.protectionOf(e, now)
		r.victimBySlot[e.Slot] = v
		r.Victims = append(r.Victims, e)
	}
	return list
}

// resetVictims drops the results of loadVictims.
func (r *Round) resetVictims() {
	for i, e := range r.Victims {
		r.victimBySlot[e.Slot], r.Victims[i] = nil, nil
	}
	r.Victims, r.loadedClasses = r.Victims[:0], 0
}

// markEligible marks the jobs that may be stopped under the given preemption rights, and reports whether it
// marked any. Protected jobs are counted, but not marked.
func (s *victimSearch) markEligible(rights preemptionRights) bool {
	s.round.searchID++
	s.id, s.outcome.eligible, s.quota.borrowed, s.outcome.protections = s.round.searchID, 0, s.quota.borrowed[:0], protectionCounts{}
	most := 0
	if rights&rightByClass != 0 {
		most = max(s.rank-1, 0)
	}
	if rights&(rightByQuota|rightToMove) != 0 {
		most = job.Classes
	}
	for rank := range most {
		for _, e := range s.round.loadVictims(rank, s.now) {
			v := s.round.victimBySlot[e.Slot]
			v.borrowedParts = v.borrowedParts[:0]
			switch {
			case rights&rightByQuota != 0 && s.isBorrowed(v):
				v.reason = ares.PreemptByQuota
			case rights&rightByClass != 0 && rank <= s.rank-2:
				v.reason = ares.PreemptByClass
			case rights&rightToMove != 0 && s.isMovable(v):
				v.reason = ares.PreemptByMove
			default:
				continue
			}
			if s.barred[e] {
				s.outcome.protections.count[protectedHold]++
				continue
			}
			if !v.mayBePreemptedBy(s.rank) {
				s.outcome.protections.add(v)
				if v.protection == protectedByEvent {
					s.outcome.protections.addEvent(s.round.Jobs.Protection(e.ID))
				}
				continue
			}
			if s.ancestry[e.ID] || slices.Contains(s.round.Stopping, e) {
				continue
			}
			v.eligibleIn, v.chosen = s.id, false
			s.outcome.eligible++
		}
	}
	return s.outcome.eligible > 0
}

// candidateIndex holds the seats of eligible jobs by node, for one request.
type candidateIndex struct {
	request  *cluster.Request
	feasible *cluster.Set
	nodes    []candidateNode // by position
	seats    []candidateSeat // ordered by node
	nodeAt   []int32         // by node position: index in nodes plus one, 0 for none
	capacity []int32         // by node position: members that fit without stopping any job
}

// candidateNode is a node with seats of eligible jobs.
type candidateNode struct {
	node               *cluster.Node
	firstSeat, endSeat int          // range in candidateIndex.seats
	changes            int          // value of node.Changes for which evict and gain are valid
	gain               int          // additional members that fit if evict is stopped
	evict              []NodeVictim // the cheapest jobs to stop for one more member
}

// candidateSeat is a seat of an eligible job.
type candidateSeat struct {
	victim *candidateVictim
	seat   *ares.Seat
	milli  int64
}

// indexCandidates builds the candidate index.
func (s *victimSearch) indexCandidates() {
	s.index.nodes, s.index.seats = s.index.nodes[:0], s.index.seats[:0]
	s.index.nodeAt = slices.Grow(s.index.nodeAt[:0], len(s.round.Cluster.Nodes))[:len(s.round.Cluster.Nodes)]
	s.index.capacity = slices.Grow(s.index.capacity[:0], len(s.round.Cluster.Nodes))[:len(s.round.Cluster.Nodes)]
	clear(s.index.nodeAt)
	clear(s.index.capacity)
	for i := s.index.feasible.Next(0); i >= 0; i = s.index.feasible.Next(i + 1) {
		n := s.round.Cluster.Nodes[i]
		if !n.Schedulable() {
			continue
		}
		s.index.capacity[i] = int32(n.RoomFor(s.index.request))
		from := len(s.index.seats)
		for _, occupant := range n.Occupants {
			if v := s.round.victimBySlot[occupant.Owner]; v != nil && v.eligibleIn == s.id {
				milli := int64(0)
				for k := range occupant.Seat.Shares {
					milli += int64(occupant.Seat.Shares[k].Milli)
				}
				s.index.seats = append(s.index.seats, candidateSeat{v, occupant.Seat, milli})
			}
		}
		if len(s.index.seats) > from {
			s.index.nodes = append(s.index.nodes, candidateNode{node: n, firstSeat: from, endSeat: len(s.index.seats), changes: -1})
			s.index.nodeAt[i] = int32(len(s.index.nodes))
		}
	}
}

// NodeVictim is a job that could be stopped, with its seats on one node.
type NodeVictim struct {
	Entry  *job.Entry
	victim *candidateVictim // nil outside a search for victims
	Seats  []*ares.Seat
	Milli  int  // thousandths of devices on the node
	Own    bool // the job belongs to the requesting tenant
}

// SeatsOf yields the seats that the given jobs have on one node.
func SeatsOf(of []NodeVictim) iter.Seq[*ares.Seat] {
	return func(yield func(*ares.Seat) bool) {
		for i := range of {
			for _, seat := range of[i].Seats {
				if !yield(seat) {
					return
				}
			}
		}
	}
}
