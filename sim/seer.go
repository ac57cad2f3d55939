package sim

import (
	"container/heap"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

// seer tells the engine how long jobs will run from those that ended before, as
// a server does. It learns of a run when that ends, and of one that outlasts its
// p90 then.
type seer struct {
	mind *forecast.Forecaster
	told map[ares.JobID]prediction // of jobs that have not ended
	late ends                      // when running ones will have outlasted their p90
}

type prediction struct {
	ask     forecast.Ask
	said    ares.RuntimePredicted
	overdue bool
}

func newSeer() *seer {
	return &seer{mind: forecast.New(forecast.Config{}), told: map[ares.JobID]prediction{}}
}

// predict says how long a job that has just come will run.
func (w *World) predict(job *ares.Job) *ares.RuntimePredicted {
	w.catchUp()
	p := prediction{ask: forecast.AskOf(job)}
	f := w.seer.mind.Predict(p.ask)
	p.said = ares.RuntimePredicted{Job: job.ID, P50: f.P50, P90: f.P90, Basis: f.Basis, Samples: f.Samples}
	w.seer.told[job.ID] = p
	return &p.said
}

// began notes when a run will be overdue. What it ran before it gave way counts.
func (w *World) began(r *record) {
	if w.seer == nil {
		return
	}
	if p, ok := w.seer.told[r.id]; ok && !p.overdue {
		heap.Push(&w.seer.late, end{w.now.Add(p.said.P90 - (r.runs - r.left)), r.id, r.attempts})
	}
}

// learn learns from a job that has just ended.
func (w *World) learn(r *record) {
	if w.seer == nil {
		return
	}
	w.catchUp()
	p := w.seer.told[r.id]
	delete(w.seer.told, r.id)
	w.seer.mind.Observe(forecast.Run{Ask: p.ask, Took: r.runs, Outcome: forecast.Ended, Told: p.said.P90, Overdue: p.overdue})
}

// catchUp notes the runs that have become overdue by now.
func (w *World) catchUp() {
	for late := &w.seer.late; len(*late) > 0 && (*late)[0].at.Before(w.now); {
		e := heap.Pop(late).(end)
		p, live := w.seer.told[e.job]
		if live && !p.overdue && w.record(e.job).attempts == e.attempt {
			p.overdue = true
			w.seer.told[e.job] = p
			w.seer.mind.Overdue(p.ask)
		}
	}
}
