package placement

import (
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// IsBlockedByWindows reports whether administrators' reservations alone block a job
// that was not placed: it would fit without them. When a shorter job would fit, it
// sets WouldDelay too: the job is skipped alone, because others of its shape may be
// shorter.
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

// OutlastsWindow reports whether reservations blocked a job of the same shape in this
// epoch that was expected to run as long or shorter.
func (pl *Placer) OutlastsWindow(e *job.Entry, stay window.Stay) bool {
	if e.Shape.WindowEpoch != pl.Epoch || stay.Lasts < e.Shape.WindowStay {
		return false
	}
	pl.WouldDelay, pl.WindowBlocked = true, true
	return true
}
