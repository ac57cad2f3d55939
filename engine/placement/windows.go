package placement

import "github.com/ares-scheduler/ares/engine/job"

// IsBlockedByWindows reports whether administrators' reservations alone block a job
// that was not placed: it would fit without them. When a shorter job would fit, it
// sets WouldDelay too: the job is skipped alone, because others of its shape may be
// shorter.
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
	fitsWithout := fits()
	c.Ignored = false
	if !fitsWithout {
		return false
	}
	pl.WindowBlocked = true
	stay := c.ExpectedStay
	c.ExpectedStay = 0
	if pl.WouldDelay = fits(); pl.WouldDelay {
		e.Shape.WindowEpoch, e.Shape.WindowStay = pl.Epoch, stay
	}
	c.ExpectedStay = stay
	return true
}

// OutlastsWindow reports whether reservations blocked a job of the same shape in this
// epoch that was expected to run as long or shorter.
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
