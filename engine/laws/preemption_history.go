package laws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// PreemptionHistory observes the preemptions of a sequence of plans and checks that they form no cycle. The
// zero value is ready for use.
type PreemptionHistory struct {
	// Preemptions lists all preemptions in the order in which they occurred.
	Preemptions []Preemption
	// Nominations counts all nominations, and Withdrawals counts the withdrawn nominations.
	Nominations, Withdrawals int

	victimsOf map[ares.JobID][]ares.JobID // victims by preemptor, while both are live
}

// Preemption is one preemption: the preempted job, and the job for which it was preempted.
type Preemption struct {
	Job, Preemptor ares.JobID
	Why            ares.PreemptionBasis
	At             time.Time
}

// Observe records the preemptions of a plan before the plan is written. Observe needs the state from which the plan
// was made.
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
		if stop.Preemption != nil {
			seen.Why = stop.Preemption.Why
		}
		w.Preemptions = append(w.Preemptions, seen)
		if err := w.addEdge(s, seen.Preemptor, seen.Job); err != nil {
			return err
		}
	}
	return nil
}

// The method `preemptor` returns the job for which another job is stopped, or false if the stop is not a
// preemption.
func preemptor(s *ares.Stop) (ares.JobID, bool) {
	if s.Why != ares.StopPreempt {
		return "", false
	}
	if s.Preemption != nil {
		return s.Preemption.To, true
	}
	by, ok := strings.CutPrefix(s.By, "job ")
	return ares.JobID(by), ok
}

// addEdge records that one job preempted another job, and returns an error if this closes a
// cycle.
func (w *PreemptionHistory) addEdge(s *engine.State, by, victim ares.JobID) error {
	if w.victimsOf == nil {
		w.victimsOf = map[ares.JobID][]ares.JobID{}
	}
	if !slices.Contains(w.victimsOf[by], victim) {
		w.victimsOf[by] = append(w.victimsOf[by], victim)
	}
	if way := w.findPath(s, victim, by, map[ares.JobID]bool{}); way != nil {
		return Violation{"cycles", fmt.Errorf("%[1]s preempts %[2]s, but %[2]s preempted %[1]s earlier, directly or through other jobs: %[3]v", by, victim, append(way, by))}
	}
	return nil
}

// Job a may have preempted job b directly or through a chain of other live jobs. findPath returns this chain, or
// nil if there is none.
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

// MaxPerJob returns how often the most preempted job was preempted.
func (w *PreemptionHistory) MaxPerJob() int {
	count, most := map[ares.JobID]int{}, 0
	for i := range w.Preemptions {
		count[w.Preemptions[i].Job]++
		most = max(most, count[w.Preemptions[i].Job])
	}
	return most
}
