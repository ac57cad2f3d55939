package sim

import (
	"container/heap"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// stopAttempt stops the current attempt of a job, immediately or after its checkpoint. The method reports whether
// the job is waiting now.
func (w *World) stopAttempt(c *engine.RunChange) (waits bool, err error) {
	r := w.record(c.Job)
	job, _ := w.state.Job(c.Job)
	r.preemptions++
	if ran := w.now.Sub(r.since); job.Checkpoint.Enabled {
		r.remaining -= ran
	} else {
		r.lostMilli += int64(r.gpus) * int64(ran/time.Second) // the job starts over
	}
	r.attempts++ // invalidates the scheduled end of this attempt
	r.lostMilli += int64(r.gpus) * int64(w.policy.CheckpointSeconds)
	if saving := time.Duration(w.policy.CheckpointSeconds) * time.Second; saving > 0 {
		heap.Push(&w.ends, attemptEnd{w.now.Add(saving), c.Job, 0})
		return false, nil
	}
	return true, w.endAttempt(c.Job, &c.Run)
}

// leaveQueue removes a job whose queue timeout has expired.
func (w *World) leaveQueue(r *record) {
	r.leftQueue = w.now
	w.demandMilli -= r.gpus
	w.finished++
	if w.predictor != nil {
		delete(w.predictor.predictions, r.id)
	}
	w.batch = append(w.batch, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(r.id)}})
}

// endAttempt ends an attempt that was asked to stop, and frees its seats.
func (w *World) endAttempt(id ares.JobID, run *ares.Run) error {
	w.allocated.to(w.now, -w.record(id).gpus)
	job, _ := w.state.Job(id)
	fence, ranks := run.Fence(), len(run.Last().Seats)
	res := ares.RankResult{Outcome: ares.OutcomeStopped, Reason: "stopped", StartedAt: run.Last().StartedAt, EndedAt: w.now}
	for rank := range ranks {
		if err := run.Finish(job, fence, rank, res, w.now); err != nil {
			return fmt.Errorf("end %s: %w", id, err)
		}
		if err := run.Release(fence, rank); err != nil {
			return fmt.Errorf("free %s: %w", id, err)
		}
	}
	return nil
}

// handleEnd handles the scheduled end of a job. For a preempted attempt, it handles the end of the time in which
// the attempt writes its checkpoint. The method reports whether the job is waiting again.
func (w *World) handleEnd(e attemptEnd) (waits bool, err error) {
	if e.attempt != 0 {
		if e.attempt == w.record(e.job).attempts {
			w.finish(e.job)
		}
		return false, nil
	}
	run, _ := w.state.Run(e.job)
	if err := w.endAttempt(e.job, &run); err != nil {
		return false, err
	}
	w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: e.job, Run: run}})
	return true, nil
}
