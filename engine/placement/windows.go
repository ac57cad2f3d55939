package placement

import "github.com/ares-scheduler/ares/engine/job"

// IsBlockedByWindows says of a job that found no place whether reservations alone keep it
// off: it would fit without them. Unless its length is nothing to it, others of
// its shape may be shorter, and it is passed over alone.
func (pl *Placer) IsBlockedByWindows(e *job.Entry, members int, ban uint64) bool {
	c := pl.Windows
	if len(c.Windows) == 0 || len(pl.Windows.BlockingWindows(e.Shape, &pl.Cluster.RefreshFeasible(pl.Cluster.WithoutModels(e.Shape.Request, ban)).Nodes)) == 0 {
		return false
	}
	fits := func() bool {
		m := pl.Txn.Mark()
		_, ok := pl.placeForStay(e.Shape, members, ban, e)
		pl.Txn.Undo(m)
		return ok
	}
	c.Ignored = true
	open := fits()
	c.Ignored = false
	if !open {
		return false
	}
	pl.WindowBlocked = true
	lasts := c.ExpectedStay
	c.ExpectedStay = 0
	if pl.WouldDelay = fits(); pl.WouldDelay {
		e.Shape.WindowEpoch, e.Shape.WindowStay = pl.Epoch, lasts
	}
	c.ExpectedStay = lasts
	return true
}

// OutlastsWindow says whether one of the job's shape that stays no longer was shut out
// in this decision already.
func (pl *Placer) OutlastsWindow(e *job.Entry) bool {
	if e.Shape.WindowEpoch != pl.Epoch || pl.Speculative {
		return false
	}
	pl.Windows.SetExpectedStay(e)
	if pl.Windows.ExpectedStay < e.Shape.WindowStay {
		return false
	}
	pl.WouldDelay, pl.WindowBlocked = true, true
	return true
}
