package sim

import (
	"container/heap"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// stop carries out what a plan says of jobs that give way, and of those whose
// turn has come again. It says how many of them wait from now on.
func (w *World) stop(plan *ares.Plan) (waiting int, err error) {
	for _, id := range plan.Ready {
		run, _ := w.state.Run(id)
		if err := run.Ready(w.now); err != nil {
			return waiting, fmt.Errorf("ready %s: %w", id, err)
		}
		w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	}
	for i := range plan.Note {
		n := &plan.Note[i]
		run, _ := w.state.Run(n.Job)
		if err := run.NoteLateness(n, w.now); err != nil {
			return waiting, fmt.Errorf("note %s: %w", n.Job, err)
		}
		w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: n.Job, Run: run}})
	}
	if err := w.nominate(plan); err != nil {
		return waiting, err
	}
	for _, s := range plan.Stop {
		r := w.record(s.Job)
		job, _ := w.state.Job(s.Job)
		run, _ := w.state.Run(s.Job)
		if err := run.RequestStop(s.Stop); err != nil {
			return waiting, fmt.Errorf("stop %s: %w", s.Job, err)
		}
		if s.Stop.Why == ares.StopQueue {
			w.quit(r)
			waiting--
			continue
		}
		r.stops++
		if ran := w.now.Sub(r.since); job.Checkpoint.Enabled {
			r.left -= ran
		} else {
			r.lost += int64(r.gpus) * int64(ran/time.Second) // it begins anew
		}
		r.attempts++ // the end it was to come to is none now
		saving := time.Duration(w.policy.CheckpointSeconds) * time.Second
		r.lost += int64(r.gpus) * int64(w.policy.CheckpointSeconds)
		if saving == 0 {
			if err := w.giveUp(s.Job, &run); err != nil {
				return waiting, err
			}
			waiting++
		} else {
			heap.Push(&w.ends, end{w.now.Add(saving), s.Job, 0})
		}
		w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: s.Job, Run: run}})
	}
	return waiting, nil
}

// nominate keeps the seats that a plan keeps for jobs, and gives up those that it
// gives up.
func (w *World) nominate(plan *ares.Plan) error {
	for i := range plan.Nominate {
		n := &plan.Nominate[i]
		run, _ := w.state.Run(n.Job)
		if err := run.Nominate(n.Nomination); err != nil {
			return fmt.Errorf("nominate %s: %w", n.Job, err)
		}
		run.Revision = w.revision + 1
		w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: n.Job, Run: run}})
	}
	for _, n := range plan.Withdraw {
		run, _ := w.state.Run(n.Job)
		if err := run.Withdraw(n.Why, w.now); err != nil {
			return fmt.Errorf("withdraw %s: %w", n.Job, err)
		}
		w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: n.Job, Run: run}})
	}
	return nil
}

// quit lets a job go that has waited for as long as it would.
func (w *World) quit(r *record) {
	r.quit = w.now
	w.load -= r.gpus
	w.finished++
	if w.seer != nil {
		delete(w.seer.told, r.id)
	}
	w.batch = append(w.batch, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(r.id)}})
}

// giveUp ends an attempt that was asked to stop, and frees its seats.
func (w *World) giveUp(id ares.JobID, run *ares.Run) error {
	w.held.to(w.now, -w.record(id).gpus)
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

// endOf is the end of an attempt: of the job, or of its stop. It says whether
// the job waits again.
func (w *World) endOf(e end) (waits bool, err error) {
	if e.attempt != 0 {
		if e.attempt == w.record(e.job).attempts {
			w.finish(e.job)
		}
		return false, nil
	}
	run, _ := w.state.Run(e.job)
	if err := w.giveUp(e.job, &run); err != nil {
		return false, err
	}
	w.batch = append(w.batch, ares.Event{Run: &ares.RunEvent{Job: e.job, Run: run}})
	return true, nil
}
