package laws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// PreemptionHistory observes the preemptions of a sequence of plans and checks that they
// have no cycle. The zero value is ready for use.
type PreemptionHistory struct {
	// Preemptions has every preemption in order.
	Preemptions []Preemption
	// Nominations counts nominations, and Withdrawals those that were withdrawn.
	Nominations, Withdrawals int

	victimsOf map[ares.JobID][]ares.JobID // victims by preemptor, while both are live
}

// Preemption is one preemption: a job, and the job it was preempted for.
type Preemption struct {
	Job, Preemptor ares.JobID
	Why            ares.PreemptionBasis
	At             time.Time
}

// Observe observes a plan before it is written, with the state it was made from.
func (w *PreemptionHistory) Observe(s *engine.State, p *ares.Plan) error {
	w.Nominations += len(p.Nominate)
	w.Withdrawals += len(p.Withdraw)
	for i := range p.Stop {
		stop := &p.Stop[i].Stop
		to, ok := preemptor(stop)
		if !ok {
			continue
		}
		seen := Preemption{Job: p.Stop[i].Job, Preemptor: to, At: p.Now}
		if stop.Yield != nil {
			seen.Why = stop.Yield.Why
		}
		w.Preemptions = append(w.Preemptions, seen)
		if err := w.addEdge(s, seen.Preemptor, seen.Job); err != nil {
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
func (w *PreemptionHistory) addEdge(s *engine.State, by, victim ares.JobID) error {
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
func (w *PreemptionHistory) findPath(s *engine.State, from, to ares.JobID, seen map[ares.JobID]bool) []ares.JobID {
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

// MaxPerJob returns the highest number of preemptions of one job.
func (w *PreemptionHistory) MaxPerJob() int {
	count, most := map[ares.JobID]int{}, 0
	for i := range w.Preemptions {
		count[w.Preemptions[i].Job]++
		most = max(most, count[w.Preemptions[i].Job])
	}
	return most
}
