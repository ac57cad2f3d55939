package check

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O1 checks that exactly one attempt's result becomes final. In the
// store, a final phase must never change, and a written result must not be
// removed. An archived job must never become live again. The attempt that ends
// the job must have the current fence. Once a cancellation is in the store, the
// job can only end as "cancelled". The lines that a job's processes wrote must
// agree with the store. If a job succeeded, one attempt ended it. Every rank
// must have run to its end under the fence of this attempt.
//
// A restore may lose only results that became final after the backup's
// revision.
type commits struct{ *book }

func (f *commits) settle(*trace.Entry, int64) {}

func (f *commits) step(c *change) {
	switch {
	case c.restore != nil:
		f.restored(c)
		return
	case c.was == nil || c.now == nil:
		return // the job is new, or it vanished, which another oracle judges
	case c.isGrantedAgain():
		if c.was.ended() || c.gap {
			return
		}
	}
	was, now := c.was, c.now
	switch {
	case was.gone:
		if !now.gone && !was.dropped {
			f.wrong(OneCommit, c.id, now.at, "it was archived and is back at revision %d as %s", now.revision, now.phase)
		}
		return
	case was.job != nil && now.job != nil && was.job.Revision != now.job.Revision:
		f.wrong(OneCommit, c.id, now.at, "it was accepted at revision %d and again at %d", was.job.Revision, now.job.Revision)
	case now.gone && !was.phase.Final() && !c.gap:
		f.wrong(OneCommit, c.id, now.at, "it was archived at revision %d while %s", now.revision, was.phase)
	case was.phase.Final() && now.phase != was.phase:
		f.wrong(OneCommit, c.id, now.at, "it became %s at revision %d and was %s before, for good", now.phase, now.revision, was.phase)
	case was.stop() == ares.StopCancel && now.stop() != ares.StopCancel && now.phase != ares.Cancelled && !now.gone:
		f.wrong(OneCommit, c.id, now.at, "it was asked to stop by a cancel and is %s at revision %d: the cancel was forgotten", now.phase, now.revision)
	}
	if now.gone {
		return
	}
	f.resultsStay(c)
	if now.phase.Final() && !was.phase.Final() && !c.gap {
		text := ""
		if now.job != nil && now.job.IsArray() {
			text = f.arrayOf(now)
		} else {
			text = commitOf(was, now)
		}
		if text != "" {
			f.wrong(OneCommit, c.id, now.at, "revision %d made it %s: %s", now.revision, now.phase, text)
		}
	}
}

// This method checks that jobs that were final in the backup are still final
// after the restore.
func (f *commits) restored(c *change) {
	if !c.was.ended() || c.was.dropped || c.was.finalAt > c.restore.Backup || c.now == nil || c.now.gone {
		return
	}
	if c.was.phase != "" && c.now.phase != c.was.phase {
		f.wrong(OneCommit, c.id, c.now.at, "it was %s since revision %d, and is %s after a restore of revision %d",
			c.was.phase, c.was.finalAt, c.now.phase, c.restore.Backup)
	}
}

// resultsStay checks that a result or outcome never changes after it is written.
// A late report under an old fence must have no effect.
func (f *commits) resultsStay(c *change) {
	for i := range c.was.attempts() {
		old := &c.was.run.Attempts[i]
		for k := range c.now.attempts() {
			a := &c.now.run.Attempts[k]
			if a.Number != old.Number {
				continue
			}
			if old.Ended() && (a.Outcome != old.Outcome || a.ExitCode != old.ExitCode) {
				f.wrong(OneCommit, c.id, c.now.at, "attempt %d had ended as %s and is %q at revision %d", old.Number, old.Outcome, a.Outcome, c.now.revision)
			}
			for n := range old.Seats {
				f.resultStays(c, old, a, n)
			}
		}
	}
}

func (f *commits) resultStays(c *change, old, a *ares.Attempt, n int) {
	had := old.Seats[n].Result
	var has *ares.RankResult
	if n < len(a.Seats) {
		has = a.Seats[n].Result
	}
	if old.Ended() && had == nil && has != nil {
		f.wrong(OneCommit, c.id, c.now.at, "rank %d of attempt %d reported %s at revision %d, after the attempt had ended", n, old.Number, has.Outcome, c.now.revision)
	}
	if had != nil && (has == nil || has.Outcome != had.Outcome || has.ExitCode != had.ExitCode) {
		f.wrong(OneCommit, c.id, c.now.at, "the result of rank %d of attempt %d was %s and changed at revision %d", n, old.Number, had.Outcome, c.now.revision)
	}
}

// If an array ended in a wrong way, arrayOf describes what is wrong. An array
// must end after all of its elements, and may succeed only if every element
// succeeded.
func (f *commits) arrayOf(now *state) string {
	succeeded, made := 0, 0
	if now.run != nil {
		made = now.run.Next
	}
	for i := range made {
		e := f.jobs[string(ares.ElementID(now.job.ID, i))]
		if !e.ended() {
			return fmt.Sprintf("its element %d has not ended", i)
		}
		if e.phase == ares.Succeeded {
			succeeded++
		}
	}
	if (now.phase == ares.Succeeded) != (succeeded == now.job.Array.Count) && now.phase != ares.Cancelled {
		return fmt.Sprintf("%d of its %d elements have succeeded", succeeded, now.job.Array.Count)
	}
	return ""
}

// If the change that made a job final is wrong, commitOf describes what is
// wrong.
func commitOf(was, now *state) string {
	var current *ares.Attempt
	if was.run != nil {
		current = was.run.Current()
	}
	if now.phase == ares.Returned {
		if current != nil {
			return fmt.Sprintf("attempt %d was under way", current.Number)
		}
		return ""
	}
	if current == nil {
		if now.phase != ares.Cancelled && now.phase != ares.Failed {
			return "no attempt was under way"
		}
		return ""
	}
	last := now.run.Last()
	switch {
	case last == nil || last.Fence != current.Fence:
		return fmt.Sprintf("its last attempt is not the one under fence %d, which was current", current.Fence)
	case !last.Ended():
		return fmt.Sprintf("attempt %d has not ended", last.Number)
	case now.phase != ares.Succeeded:
		return ""
	}
	for i := range last.Seats {
		if res := last.Seats[i].Result; res == nil || res.Outcome != ares.OutcomeSucceeded {
			return fmt.Sprintf("rank %d of attempt %d has not succeeded", last.Seats[i].Rank, last.Number)
		}
	}
	return ""
}

// processesOf checks the processes of each job that succeeded. They must have
// started and run to their end under the committed fence.
func (j *judge) processesOf(b *book) {
	type life struct {
		fence int64
		rank  int
		verb  trace.Verb
	}
	for id, history := range b.history {
		said := map[life]bool{}
		for _, w := range j.run.Witnesses[id] {
			said[life{w.Fence, w.Rank, w.Verb}] = true
		}
		for i, s := range history {
			if s.phase != ares.Succeeded || s.run == nil || i > 0 && history[i-1].phase == ares.Succeeded {
				continue
			}
			a := s.run.Last()
			if a == nil {
				continue // reported by commitOf
			}
			for k := range a.Seats {
				if rank := a.Seats[k].Rank; !said[life{int64(a.Fence), rank, trace.Started}] || !said[life{int64(a.Fence), rank, trace.Ended}] {
					j.wrong(OneCommit, id, s.at, "it succeeded by fence %d, but its rank %d never said so: started %t, ended %t",
						a.Fence, rank, said[life{int64(a.Fence), rank, trace.Started}], said[life{int64(a.Fence), rank, trace.Ended}])
				}
			}
		}
	}
}
