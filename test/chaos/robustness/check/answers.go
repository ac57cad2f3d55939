package check

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O5 compares the answers that clients got with the store. An answer
// about a job contains a revision, and must match the store at that revision.
// The answer must not be older than the state of the store when the call
// started. Every change that the recorder has seen was committed. A call that
// begins later must therefore also see that change. The comparison with the
// store finds an outdated answer even if all other clients got the same
// answer.
//
// The file linear.go checks calls that overlap a restore.
func (j *judge) compareAnswers(b *book) {
	for i := range j.run.Calls {
		c := &j.run.Calls[i]
		epoch := j.epochAt(c.Start)
		if epoch != j.epochAt(c.End) {
			continue
		}
		seen := lastSeen(b.history[c.Job], epoch, c.Start)
		switch {
		case c.Op == trace.Get && c.Outcome == trace.OK:
			j.compareGet(b, c, seen)
		case (c.Op == trace.Get || c.Op == trace.Cancel) && c.Outcome == trace.Refused && c.Code == string(ares.NotFound):
			if seen != nil && !seen.dropped {
				j.wrong(Linearizable, c.Job, c.Start, "a %s at %s found no job; the store had it since %s", c.Op, c.Server, seconds(seen.at-j.run.Meta.Start))
			}
		case c.Op == trace.Submit && c.Outcome == trace.OK && !c.Duplicate:
			if seen != nil && !seen.dropped {
				j.wrong(Linearizable, c.Job, c.Start, "a submit at %s made a new job; the store had it since %s", c.Server, seconds(seen.at-j.run.Meta.Start))
			}
		case c.Op == trace.Cancel && c.Outcome == trace.OK:
			j.compareCancel(b, c, epoch)
		}
	}
}

// lastSeen returns the latest state of a job that the recorder had seen by the
// given time. It returns nil if that state belongs to another epoch.
func lastSeen(history []*state, epoch int, at time.Duration) *state {
	n, _ := slices.BinarySearchFunc(history, at, func(s *state, at time.Duration) int { return cmp.Compare(s.at, at) })
	if n == 0 || history[n-1].epoch != epoch {
		return nil
	}
	return history[n-1]
}

func (j *judge) compareGet(b *book, c *trace.Call, seen *state) {
	if c.Revision == 0 { // archived: the answer says only how it ended
		j.compareArchived(b, c)
		return
	}
	switch {
	case seen == nil:
	case seen.gone && !seen.dropped:
		j.wrong(Linearizable, c.Job, c.Start, "a get at %s found it %s at revision %d; it was archived before, at %d", c.Server, c.Phase, c.Revision, seen.revision)
	case c.Revision < seen.revision:
		j.wrong(Linearizable, c.Job, c.Start, "a get at %s found it %s at revision %d; the store had it %s at %d since %s", c.Server, c.Phase, c.Revision,
			seen.phase, seen.revision, seconds(seen.at-j.run.Meta.Start))
	}
	if b.unseen(c.Revision) {
		j.Totals.GetsUnseen++
		return
	}
	j.Totals.GetsCompared++
	var held *state
	for _, s := range b.history[c.Job] {
		if s.revision != c.Revision || s.gone {
			continue
		}
		held = s
		if s.phase == c.Phase && s.placed() == c.Attempt && string(s.stop()) == c.Stop {
			return
		}
	}
	if held == nil {
		j.wrong(Linearizable, c.Job, c.Start, "a get at %s found it %s at revision %d, at which the store did not change it", c.Server, c.Phase, c.Revision)
		return
	}
	j.wrong(Linearizable, c.Job, c.Start, "a get at %s found it %s, attempt %d, stop %q at revision %d; the store held %s, %d, %q", c.Server,
		c.Phase, c.Attempt, c.Stop, c.Revision, held.phase, held.placed(), held.stop())
}

func (j *judge) compareArchived(b *book, c *trace.Call) {
	j.Totals.GetsCompared++
	for _, s := range b.history[c.Job] {
		if s.phase == c.Phase && s.phase.Final() || s.gone && s.phase == "" && c.Phase.Final() {
			return
		}
	}
	j.wrong(Linearizable, c.Job, c.Start, "a get at %s found it archived as %q, as which the store never had it", c.Server, c.Phase)
}

// compareCancel checks that an acknowledged cancel is in the store. The job
// must be asked to stop or be cancelled before the record or the epoch ends.
func (j *judge) compareCancel(b *book, c *trace.Call, epoch int) {
	var last *state
	for _, s := range b.history[c.Job] {
		if s.epoch == epoch {
			last = s
		}
	}
	switch {
	case last == nil || last.phase == "" || j.run.Store[len(j.run.Store)-1].At < c.End:
		return // created and removed in a gap, its end is not recorded, or the record ends earlier
	case last.phase == ares.Cancelled || last.stop() == ares.StopCancel:
		return
	case last.endedByOwner():
		return
	case epoch < len(j.run.Meta.Restores) && b.unseen(j.run.Meta.Restores[epoch].Highest):
		return // it may be in the revisions that the recorder missed before the restore
	}
	j.wrong(Linearizable, c.Job, c.Start, "a cancel at %s was answered %q, and the store has it %s in the end", c.Server, c.Phase, last.phase)
}
