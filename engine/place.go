package engine

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Place answers for one job, known to the state or not, whether it may run now
// and where: its seats, or everything that keeps it waiting. It does what
// Decide does with each waiting job, and changes nothing.
func Place(s *State, job *ares.Job, now time.Time) ([]ares.Seat, *ares.Refusal) {
	e, sh := s.jobs[job.ID], shapeOf(job, s.tenantOr(job.Tenant))
	if len(s.waits(e, sh, now)) == 0 {
		t := s.begin()
		seats, _ := t.place(sh)
		t.backTo(mark{})
		if seats != nil {
			return seats, nil
		}
	}
	return nil, &ares.Refusal{Job: job.ID, Blockers: s.blockers(e, sh, job.GPUModel, now)}
}

// tenantOr finds a tenant without adding one.
func (s *State) tenantOr(id string) *tenant {
	if t := s.tenants[id]; t != nil {
		return t
	}
	return &tenant{id: id}
}

// place takes seats for the whole gang, or for as many of an elastic one as
// fit, first fit in the order of node IDs; or it takes nothing and says how many
// members had found one. Ranks follow the order of the nodes.
func (t *try) place(sh *shape) (seats []ares.Seat, fitted int) {
	s, start, want, most := t.state, t.mark(), sh.want(), sh.affords()
	f := s.sift(sh)
	for i := s.next(f, 0, want); i >= 0; i = s.next(f, i+1, want) {
		n := s.nodes[i]
		room := n.room(sh)
		if room == 0 || sh.oneNode && room < sh.least {
			continue
		}
		if seats == nil {
			seats = make([]ares.Seat, 0, most)
		}
		for range min(room, most-len(seats)) {
			seats = append(seats, t.sit(n, sh, len(seats)))
		}
		s.sky.set(n.at, n.left())
		if len(seats) == most || sh.oneNode {
			return seats, len(seats)
		}
	}
	if len(seats) >= sh.least {
		return seats, len(seats)
	}
	t.backTo(start)
	return nil, len(seats)
}

// fewFit is the short refusal of a gang that found no place.
func fewFit(sh *shape, fitted int) ares.Blocker {
	detail := fmt.Sprintf("%d of %d members fit (%s each)", fitted, sh.members, sh.each())
	if sh.least < sh.members {
		detail = fmt.Sprintf("%d of at least %d members fit (%s each)", fitted, sh.least, sh.each())
	}
	if sh.members == 1 {
		detail = fmt.Sprintf("no node has room (%s)", sh.each())
	} else if sh.oneNode {
		detail = fmt.Sprintf("no node has room for all %d members (%s each)", sh.least, sh.each())
	}
	return ares.Blocker{Kind: kindCapacity, Detail: detail}
}
