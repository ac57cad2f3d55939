package sim

import (
	"container/heap"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

// Like a server, the predictor uses earlier jobs to predict how long a job will
// run. The predictor observes a run when the run ends, and also when it exceeds
// its predicted p90.
type predictor struct {
	forecaster  *forecast.Forecaster
	predictions map[ares.JobID]prediction // of jobs that have not ended
	overdueAt   endHeap                   // when running jobs exceed their p90
}

// A `prediction` is the predicted runtime of one job.
type prediction struct {
	ask       forecast.Features
	predicted ares.RuntimePredicted
	overdue   bool
}

// newPredictor returns a predictor that has seen no runs.
func newPredictor() *predictor {
	return &predictor{forecaster: forecast.New(forecast.Config{}), predictions: map[ares.JobID]prediction{}}
}

// This method predicts the runtime of a job that has just arrived.
func (w *World) predict(job *ares.Job) *ares.RuntimePredicted {
	w.markOverdue()
	p := prediction{ask: forecast.FeaturesOf(job)}
	f := w.predictor.forecaster.Predict(p.ask)
	p.predicted = f.Record(job.ID)
	w.predictor.predictions[job.ID] = p
	return &p.predicted
}

// scheduleOverdue schedules the time at which a run will exceed its predicted p90. The time
// for which the job ran before a preemption counts as part of its runtime.
func (w *World) scheduleOverdue(r *record) {
	if w.predictor == nil {
		return
	}
	if p, ok := w.predictor.predictions[r.id]; ok && !p.overdue {
		heap.Push(&w.predictor.overdueAt, attemptEnd{w.now.Add(p.predicted.P90 - (r.runtime - r.remaining)), r.id, r.attempts})
	}
}

// observeEnd learns from a job that has just ended.
func (w *World) observeEnd(r *record) {
	if w.predictor == nil {
		return
	}
	w.markOverdue()
	p := w.predictor.predictions[r.id]
	delete(w.predictor.predictions, r.id)
	w.predictor.forecaster.Observe(forecast.Run{Features: p.ask, Took: r.runtime, Outcome: forecast.Ended, Predicted: forecast.Recorded(p.predicted), Overdue: p.overdue})
}

// markOverdue reports to the predictor which runs have exceeded their predicted p90.
func (w *World) markOverdue() {
	for late := &w.predictor.overdueAt; len(*late) > 0 && (*late)[0].at.Before(w.now); {
		e := heap.Pop(late).(attemptEnd)
		p, live := w.predictor.predictions[e.job]
		if live && !p.overdue && w.record(e.job).attempts == e.attempt {
			p.overdue = true
			w.predictor.predictions[e.job] = p
			w.predictor.forecaster.Overdue(p.ask, forecast.Recorded(p.predicted))
		}
	}
}
