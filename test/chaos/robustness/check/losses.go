package check

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O3 checks that every accepted job ends. At the end of a complete run,
// every acknowledged job must be archived or have a final phase in the store. A
// submission with an unknown outcome may or may not have created a job. Every
// job in the store must end. No job may disappear from the store.
//
// A restore may lose jobs that were accepted after the backup's revision. It may
// not lose a job that was then submitted again and accepted.
type losses struct{ *book }

func (f *losses) settle(*trace.Entry, int64) {}

func (f *losses) step(c *change) {
	if c.was == nil || c.now != nil || c.was.dropped {
		return
	}
	switch {
	case c.restore == nil:
		f.wrong(NothingLost, c.id, c.entry.At, "it was %s at revision %d and is gone without a trace at %d", c.was.phase, c.was.revision, c.entry.Batch.Revision)
	case c.was.job != nil && c.was.job.Revision <= c.restore.Backup:
		f.wrong(NothingLost, c.id, c.entry.At, "it was accepted at revision %d and is not there after a restore of revision %d", c.was.job.Revision, c.restore.Backup)
	}
}

// This method checks the state of all jobs at the end of the run.
func (j *judge) ends(b *book) {
	accepted := map[string]time.Duration{} // when the last accepting call began
	for _, c := range j.run.Calls {
		if c.Op == trace.Submit && c.Outcome == trace.OK {
			accepted[c.Job] = max(accepted[c.Job], c.Start)
		}
	}
	j.Totals.Accepted = len(accepted)
	if j.run.Meta.Healed == 0 {
		return
	}
	for id, s := range b.jobs {
		if !s.ended() {
			j.wrong(NothingLost, id, j.run.Meta.End, "it never ended: it is %s since revision %d", s.phase, s.revision)
		}
	}
	for id, at := range accepted {
		if b.jobs[id] != nil || len(b.history[id]) > 0 && b.history[id][len(b.history[id])-1].dropped {
			continue
		}
		if n := len(j.run.Meta.Restores); n > 0 && at < j.run.Meta.Restores[n-1].At {
			j.Totals.Forgotten++
			continue
		}
		j.wrong(NothingLost, id, at, "it was accepted and is not in the store at the end")
	}
}

// totalsOf counts what happened in the store.
func (j *judge) totalsOf(b *book) {
	t := &j.Totals
	t.Phases = map[ares.Phase]int{}
	for _, s := range b.jobs {
		t.Jobs++
		t.Phases[s.phase]++
		if s.ended() {
			t.Ended++
		}
	}
	for _, given := range b.fences.given {
		t.Attempts += len(given)
	}
}
