package laws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Witness sees a whole run, plan by plan, and says which law it breaks that no
// plan breaks by itself. The zero value has seen nothing.
type Witness struct {
	// Stopped is everybody who gave way, in order.
	Stopped []Stopped
	// Kept is how many nominations there were, and Withdrawn how many of them
	// were given up.
	Kept, Withdrawn int

	victimsOf map[ares.JobID][]ares.JobID // by who stopped them, while both live
}

// Stopped is one job that gave way to another.
type Stopped struct {
	Job, To ares.JobID
	Why     ares.YieldWhy
	At      time.Time
}

// See sees a plan, and the state it was made from, before it is written.
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

// preemptor is for whom a job is stopped, false when it is for nobody.
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

// addEdge notes that one job stopped another, and wants no cycle of such.
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

// findPath is how one live job has stopped another by others, nil for not at all.
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

func isLive(s *engine.State, id ares.JobID) bool {
	run, ok := s.Run(id)
	if !ok {
		_, ok = s.Job(id)
		return ok
	}
	return !run.Phase.Final()
}

// Most is how often one job gave way at most.
func (w *Witness) Most() int {
	count, most := map[ares.JobID]int{}, 0
	for i := range w.Stopped {
		count[w.Stopped[i].Job]++
		most = max(most, count[w.Stopped[i].Job])
	}
	return most
}
