package placement

import (
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// IsBlockedByWindows examines a job that was not placed. It reports whether the job would fit without the
// administrators' reservations. If a shorter job would fit, IsBlockedByWindows also sets WouldDelay. If
// WouldDelay is set, the cycle skips only this job, because other jobs with the same Shape may be shorter.
func (pl *Placer) IsBlockedByWindows(e *job.Entry, members int, ban uint64, stay window.Stay) bool {
	if len(pl.Windows.Windows) == 0 || len(pl.Windows.BlockingWindows(e.Shape, &pl.Cluster.RefreshFeasible(pl.Cluster.WithoutModels(e.Shape.Request, ban)).Nodes, stay)) == 0 {
		return false
	}
	fits := func(stay window.Stay) bool {
		m := pl.Txn.Mark()
		_, ok := pl.PlaceJob(e.Shape, members, ban, e, stay)
		pl.Txn.Undo(m)
		return ok
	}
	unblocked := stay
	unblocked.Ignore = true
	if !fits(unblocked) {
		return false
	}
	pl.WindowBlocked = true
	short := stay
	short.Lasts = 0
	if pl.WouldDelay = fits(short); pl.WouldDelay {
		e.Shape.WindowEpoch, e.Shape.WindowStay = pl.Epoch, stay.Lasts
	}
	return true
}

// OutlastsWindow reports whether reservations must block this job. This is so if they already blocked a similar
// job in this epoch. A similar job has the same Shape, and its expected runtime is not longer than that of this
// job.
func (pl *Placer) OutlastsWindow(e *job.Entry, stay window.Stay) bool {
	if e.Shape.WindowEpoch != pl.Epoch || stay.Lasts < e.Shape.WindowStay {
		return false
	}
	pl.WouldDelay, pl.WindowBlocked = true, true
	return true
}
