package laws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Witness observes the preemptions of a sequence of plans and checks that they
// have no cycle. The zero value is ready for use.
type Witness struct {
	// Stopped has every preemption in order.
	Stopped []Stopped
	// Kept counts nominations, and Withdrawn those that were withdrawn.
	Kept, Withdrawn int

	victimsOf map[ares.JobID][]ares.JobID // victims by preemptor, while both are live
}

// Stopped is one preemption: a job, and the job it was preempted for.
type Stopped struct {
	Job, To ares.JobID
	Why     ares.YieldWhy
	At      time.Time
}

// See observes a plan before it is written, with the state it was made from.
func (w *Witness) See(s *engine.State, p *ares.Plan) error {
	w.Kept += len(p.Nominate)
	w.Withdrawn += len(p.Withdraw)
	for i := range p.Stop {
		stop := &p.Stop[i].Stop
		to, ok := preemptor(stop)
		if !ok {
			continue
		}
		seen := Stopped{Job: p.Stop[i].Job, To: to, At: p.Now}
		if stop.Yield != nil {
			seen.Why = stop.Yield.Why
		}
		w.Stopped = append(w.Stopped, seen)
		if err := w.addEdge(s, seen.To, seen.Job); err != nil {
			return err
		}
	}
	return nil
}

// preemptor returns the job for which another is stopped, false if it is not
// preempted.
func preemptor(s *ares.Stop) (ares.JobID, bool) {
	if s.Why != ares.StopPreempt {
		return "", false
	}
	if s.Yield != nil {
		return s.Yield.To, true
	}
	by, ok := strings.CutPrefix(s.By, "job ")
	return ares.JobID(by), ok
}

// addEdge records that one job preempted another, and checks that this closes
// no cycle.
func (w *Witness) addEdge(s *engine.State, by, victim ares.JobID) error {
	if w.victimsOf == nil {
		w.victimsOf = map[ares.JobID][]ares.JobID{}
	}
	if !slices.Contains(w.victimsOf[by], victim) {
		w.victimsOf[by] = append(w.victimsOf[by], victim)
	}
	if way := w.findPath(s, victim, by, map[ares.JobID]bool{}); way != nil {
		return Violation{"cycles", fmt.Errorf("%s stops %s, which had stopped it: %v", by, victim, append(way, by))}
	}
	return nil
}

// findPath returns the chain of live jobs by which one job preempted another,
// nil for none.
func (w *Witness) findPath(s *engine.State, from, to ares.JobID, seen map[ares.JobID]bool) []ares.JobID {
	if from == to {
		return []ares.JobID{}
	}
	if !isLive(s, from) {
		delete(w.victimsOf, from)
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, next := range w.victimsOf[from] {
		if way := w.findPath(s, next, to, seen); way != nil {
			return append([]ares.JobID{from}, way...)
		}
	}
	return nil
}

// isLive reports whether a job has not finished.
func isLive(s *engine.State, id ares.JobID) bool {
	run, ok := s.Run(id)
	if !ok {
		_, ok = s.Job(id)
		return ok
	}
	return !run.Phase.Final()
}

// Most returns the highest number of preemptions of one job.
func (w *Witness) Most() int {
	count, most := map[ares.JobID]int{}, 0
	for i := range w.Stopped {
		count[w.Stopped[i].Job]++
		most = max(most, count[w.Stopped[i].Job])
	}
	return most
}
