package explain

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// holdOutlook returns what it would cost to hold nodes for a waiting job. The result is nil if the job needs less than
// two whole GPUs, if it fits now, if it waits for something other than capacity, or if holds are turned off.
//
// While a GPU is idle, all other waiting jobs wait. They share the GPUs of the nodes on which the job could run. So they
// start later by the idle time divided by the number of these GPUs, on average.
func (ex *Explainer) holdOutlook(e *job.Entry, now time.Time) *ares.HoldOutlook {
	if e.Queue != job.InPending || e.Shape.Members*e.Shape.Request.GPUs < 2 {
		return nil
	}
	t := ex.round.Begin(now)
	defer t.Close()
	b := t.Backfill
	if c := &b.Backfill; c.First == 0 || c.DrainAfter == 0 || c.HoldIdle == 0 {
		return nil
	}
	defer t.Preempt.ReleaseNominations()
	t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, e, nil)
	h, ok := b.CheapestHold(e, now)
	if !ok || h.Missing == 0 {
		return nil
	}
	wanted, waiting := t.WantedWith(e, now), 0
	waiting, _ = ex.jobs.Queues.CountWaiting()
	out := &ares.HoldOutlook{
		GPUs: h.GPUs, Free: h.GPUs - h.Missing, Idle: h.Idle, Until: now.Add(h.Ready), Estimated: h.Estimated,
		Delayed: waiting - 1, Delay: h.Idle / time.Duration(max(b.GPUsFor(e), 1)), Held: t.HoldsFor(e, now),
	}
	if after := b.EarnedAfter(e, h.Price(), wanted); after != job.Forever {
		out.Begins = job.LaterOf(now, e.WaitingSince().Add(after))
	}
	return out
}
