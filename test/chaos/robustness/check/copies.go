package check

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The runs in a hub's store are copies of those in its clusters: whether they are right is judged in the clusters' own records. What
// remains of oracle O1 is that an end is for good. A final phase never changes, an archived job does not come back, and a job that was
// asked to stop by a cancel does not go on: it ends as cancelled, or as the cluster that owned it has ended it before it heard of the cancel.
type copies struct{ *book }

func (f *copies) settle(*trace.Entry, int64) {}

func (f *copies) step(c *change) {
	if c.was == nil || c.now == nil || c.restore != nil {
		return
	}
	was, now := c.was, c.now
	switch {
	case was.gone:
		if !now.gone && !was.dropped {
			f.wrong(OneCommit, c.id, now.at, "it was archived and is back at revision %d as %s", now.revision, now.phase)
		}
	case now.gone && !was.phase.Final() && !c.gap:
		f.wrong(OneCommit, c.id, now.at, "it was archived at revision %d while %s", now.revision, was.phase)
	case was.phase.Final() && now.phase != was.phase && !now.gone:
		f.wrong(OneCommit, c.id, now.at, "it became %s at revision %d and was %s before, for good", now.phase, now.revision, was.phase)
	case was.stop() == ares.StopCancel && now.stop() != ares.StopCancel && now.phase != ares.Cancelled && !now.gone && !now.endedByOwner():
		f.wrong(OneCommit, c.id, now.at, "it was asked to stop by a cancel and is %s at revision %d: the cancel was forgotten", now.phase, now.revision)
	}
}

// endedByOwner reports whether the state is that of a hub's job which has ended in a cluster.
func (s *state) endedByOwner() bool { return s.phase.Final() && s.run != nil && s.run.Cluster != "" }

// isGrantedAgain reports whether the change is that a hub has granted the job to this cluster once more. The cluster had given it back
// or ended it under an earlier grant, and now has it as a new record.
func (c *change) isGrantedAgain() bool {
	if c.was == nil || c.now == nil || c.now.job == nil || c.now.job.Origin == nil {
		return false
	}
	was := c.was.job
	return was == nil && c.was.gone || was != nil && was.Origin != nil && was.Origin.Hub == c.now.job.Origin.Hub && was.Origin.Epoch < c.now.job.Origin.Epoch
}
