package laws

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Keeper sees a whole run, and wants the first in line to start when it was firmly
// promised to, with its slack, as long as nothing happens that moves a promise:
// somebody runs longer than foreseen, comes back into line, is stopped, or is placed
// who comes before it in the order. What else moves it, others have to tell it of.
// So it is whom a decision starts behind the first in line that must not delay it.
// The zero value has seen nothing.
type Keeper struct {
	// Kept is how many promises were kept, and Moved how often something moved one.
	Kept, Moved int

	job          ares.JobID // to whom something is promised, "" for nobody
	latest       time.Time
	expectedEnds map[ares.JobID]time.Time // of those who run, as foreseen
}

// Forget has the keeper expect nothing of what was promised so far: something has
// happened that moves it.
func (k *Keeper) Forget() {
	if k.job != "" {
		k.Moved++
	}
	k.job, k.expectedEnds = "", nil
}

// See sees a plan and what was promised with it, before it is written.
func (k *Keeper) See(s *engine.State, p *ares.Plan, promises []ares.Promise) error {
	ends, stopping := expectedEnds(s, p.Now)
	yields := len(p.Stop)+len(p.Nominate)+len(p.Withdraw) > 0 // what the plan promises counts with that
	if k.job != "" && (stopping || yields || k.hasOverrun(s, ends)) {
		k.Forget()
	}
	first := ares.Promise{}
	if len(promises) > 0 && promises[0].Firm && !stopping && len(p.Place) == 0 { // else the next decision promises, with those who start now
		first = promises[0]
	}
	if err := k.checkPromise(p, &first); err != nil {
		return Violation{"promises", err}
	}
	overtaken := len(promises) > 0 && promises[0].Job != k.job
	if overtaken || len(p.Place) == 0 && first.Job != k.job {
		k.Forget()
		k.job, k.latest = first.Job, first.Latest
	}
	k.expectedEnds = ends
	if k.job != "" && k.affectsPromise(s, p) {
		k.Forget()
	}
	return nil
}

// checkPromise wants what was promised still to hold, or to be fulfilled by the plan.
func (k *Keeper) checkPromise(p *ares.Plan, first *ares.Promise) error {
	placed := slices.ContainsFunc(p.Place, func(pl ares.Placing) bool { return k.job == pl.Job || k.job == pl.ArrayOf })
	switch {
	case k.job == "":
	case placed && p.Now.After(k.latest):
		return fmt.Errorf("%s starts at %s, and was promised to by %s", k.job, p.Now, k.latest)
	case placed:
		k.Kept++
		k.job = ""
	case first.Job == k.job && first.At.After(k.latest):
		return fmt.Errorf("%s is to start at %s, and was promised to by %s; nothing but time has passed", k.job, first.At, k.latest)
	}
	return nil
}

// affectsPromise says whether a plan does something that may move what was promised, other
// than starting those behind.
func (k *Keeper) affectsPromise(s *engine.State, p *ares.Plan) bool {
	if len(p.Ready)+len(p.Stop)+len(p.Nominate)+len(p.Withdraw) > 0 {
		return true
	}
	return slices.ContainsFunc(Passed(s, p), func(before []ares.JobID) bool { return !slices.Contains(before, k.job) })
}

// hasOverrun says whether somebody ran for longer than was foreseen, or was lost and
// waits again.
func (k *Keeper) hasOverrun(s *engine.State, ends map[ares.JobID]time.Time) bool {
	for id, was := range k.expectedEnds { // order-free: any will do
		end, runs := ends[id]
		if run, known := s.Run(id); !runs && known && run.Last() != nil {
			if run.Phase.Waiting() {
				return true
			}
			end = run.Last().EndedAt
		}
		if !was.IsZero() && end.After(was.Add(time.Second)) {
			return true
		}
	}
	return false
}

// expectedEnds is when those who run are thought to end, zero if nobody knows, and
// whether somebody is asked to stop: how long that takes is his.
func expectedEnds(s *engine.State, now time.Time) (ends map[ares.JobID]time.Time, stopping bool) {
	ends = map[ares.JobID]time.Time{}
	for job, run := range s.Jobs() {
		if run == nil || run.Current() == nil {
			continue
		}
		stopping = stopping || run.Stop != nil
		ends[job.ID] = time.Time{}
		if end, known := s.Ends(job.ID, now); known {
			ends[job.ID] = end
		}
	}
	return ends, stopping
}
