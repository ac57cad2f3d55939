package learn

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

// liveJob is a live job that Runtimes follows.
type liveJob struct {
	job     *ares.Job
	told    *ares.RuntimePredicted // nil without a prediction; shared with the sender of the event
	began   time.Time              // start of the running attempt, zero if none runs
	carried time.Duration          // runtime saved in checkpoints of earlier attempts
	counted int32                  // number of the last attempt that ended
	ended   bool                   // finished
	overdue bool                   // it ran longer than its p90
}

// The method `prediction` returns the job's recorded prediction. Its P90 is 0 without one.
func (j *liveJob) prediction() forecast.Forecast {
	if j.told == nil {
		return forecast.Forecast{}
	}
	return forecast.Recorded(*j.told)
}

// isPredicted reports whether the job has a prediction.
func (j *liveJob) isPredicted() bool { return j.told != nil && j.told.P90 > 0 }

// The method `follow` updates a job and returns its runs that have ended since the previous call.
func (j *liveJob) follow(r *ares.Run) []EndedRun {
	var out []EndedRun
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Number <= int(j.counted) || !a.Ended() {
			continue
		}
		j.counted, j.began = int32(a.Number), time.Time{}
		how, ran := outcomeOf(a, r)
		if !ran {
			continue
		}
		took := j.carried + a.EndedAt.Sub(a.StartedAt)
		if how == forecast.Cut && j.job.Checkpoint.Enabled && (a != r.Last() || !r.Phase.Final()) {
			j.carried += a.SavedWork() // the next attempt continues from the checkpoint, so both count as one run
			continue
		}
		out = append(out, EndedRun{forecast.Run{
			Features: forecast.FeaturesOf(j.job), Took: took, Outcome: how, Predicted: j.prediction(), Overdue: j.overdue,
		}, a.EndedAt})
		j.carried, j.overdue = 0, false
	}
	j.ended = r.Phase.Final()
	if a := r.Current(); a != nil {
		j.began = a.StartedAt
	}
	return out
}

// outcomeOf converts the outcome of an attempt to the outcome that the model learns. The second
// result is false if the attempt never ran.
func outcomeOf(a *ares.Attempt, r *ares.Run) (forecast.Outcome, bool) {
	if a.StartedAt.IsZero() || a.EndedAt.Before(a.StartedAt) {
		return "", false
	}
	last := a == r.Last()
	switch a.Outcome {
	case ares.OutcomeTimeout:
		return forecast.Limited, true
	case ares.OutcomeStopped, ares.OutcomeLost:
		return forecast.Cut, true
	case ares.OutcomeSucceeded:
		return forecast.Ended, true
	case ares.OutcomeFailed, ares.OutcomeSignaled: // a process that was asked to stop may exit with any result
		if last && (r.Phase == ares.Cancelled || r.Phase == ares.Preempted) {
			return forecast.Cut, true
		}
		return forecast.Ended, true
	case ares.OutcomeSpawnError:
	}
	return "", false
}
