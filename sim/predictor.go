package sim

import (
	"container/heap"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

// predictor tells the engine how long jobs will run from those that ended before, as
// a server does. It learns of a run when that ends, and of one that outlasts its
// p90 then.
type predictor struct {
	forecaster  *forecast.Forecaster
	predictions map[ares.JobID]prediction // of jobs that have not ended
	overdueAt   endHeap                   // when running ones will have outlasted their p90
}

type prediction struct {
	ask       forecast.Features
	predicted ares.RuntimePredicted
	overdue   bool
}

func newPredictor() *predictor {
	return &predictor{forecaster: forecast.New(forecast.Config{}), predictions: map[ares.JobID]prediction{}}
}

// predict says how long a job that has just come will run.
func (w *World) predict(job *ares.Job) *ares.RuntimePredicted {
	w.markOverdue()
	p := prediction{ask: forecast.FeaturesOf(job)}
	f := w.predictor.forecaster.Predict(p.ask)
	p.predicted = ares.RuntimePredicted{Job: job.ID, P50: f.P50, P90: f.P90, Basis: f.Basis, Samples: f.Samples}
	w.predictor.predictions[job.ID] = p
	return &p.predicted
}

// scheduleOverdue notes when a run will be overdue. What it ran before it gave way counts.
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
	w.predictor.forecaster.Observe(forecast.Run{Features: p.ask, Took: r.runtime, Outcome: forecast.Ended, PredictedP90: p.predicted.P90, Overdue: p.overdue})
}

// markOverdue notes the runs that have become overdue by now.
func (w *World) markOverdue() {
	for late := &w.predictor.overdueAt; len(*late) > 0 && (*late)[0].at.Before(w.now); {
		e := heap.Pop(late).(attemptEnd)
		p, live := w.predictor.predictions[e.job]
		if live && !p.overdue && w.record(e.job).attempts == e.attempt {
			p.overdue = true
			w.predictor.predictions[e.job] = p
			w.predictor.forecaster.Overdue(p.ask)
		}
	}
}
