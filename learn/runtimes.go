package learn

import (
	"cmp"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
)

// Runtimes learns from the runs that end, and predicts how long new jobs run.
//
// Each run is learned once, although events and snapshots repeat it. A model that was saved and restored includes the runs
// that ended before a given time, so these are not learned again.
type Runtimes struct {
	model   *forecast.Forecaster
	latest  time.Time // end of the latest run that was learned
	known   time.Time // the restored model includes all runs that ended before this time
	unsaved int       // runs since the last save
	drifts  int
	live    map[ares.JobID]*liveJob

	predicting bool
	wanted     []*liveJob // while predicting: jobs without a prediction
	arrived    int        // jobs that were added to `wanted` since the last call of Arrived
}

// NewRuntimes returns a Runtimes that has learned nothing.
func NewRuntimes() *Runtimes {
	return &Runtimes{model: forecast.New(forecast.Config{}), live: map[ares.JobID]*liveJob{}}
}

// Restore replaces the model with a saved one, which includes all runs that ended until the given time. If the saved data
// cannot be read, Restore changes nothing.
func (r *Runtimes) Restore(saved []byte, until time.Time) error {
	model, err := forecast.Restore(forecast.Config{}, saved)
	if err != nil {
		return err
	}
	r.model, r.latest, r.known = model, until, until
	return nil
}

// Until returns the end of the latest run that was learned.
func (r *Runtimes) Until() time.Time { return r.latest }

// EndedRun is a run that has ended and was not learned yet.
type EndedRun struct {
	run   forecast.Run
	ended time.Time
}

// Follow applies one batch. It returns the runs to learn from, in the order in which they ended. The caller passes them to
// Learn, in parts if it likes: the first snapshot of a large cluster may have a million of them.
func (r *Runtimes) Follow(b *ares.Batch) []EndedRun {
	before := r.live
	if b.Reset {
		r.live, r.wanted = make(map[ares.JobID]*liveJob, len(before)), nil
	}
	var ended []EndedRun
	for i := range b.Events {
		switch ev := &b.Events[i]; {
		case ev.Job != nil && r.live[ev.Job.ID] == nil:
			j := &liveJob{job: ev.Job}
			if was := before[ev.Job.ID]; was != nil && was.job.Revision == ev.Job.Revision {
				j = was
			}
			r.live[ev.Job.ID] = j
			r.want(j)
		case ev.Forecast != nil:
			if j := r.live[ev.Forecast.Job]; j != nil {
				j.told = ev.Forecast
			}
		case ev.Run != nil:
			if j := r.live[ev.Run.Job]; j != nil {
				ended = append(ended, j.follow(&ev.Run.Run)...)
			}
		case ev.Gone.Kind == ares.KindJob:
			delete(r.live, ares.JobID(ev.Gone.ID))
		}
	}
	slices.SortStableFunc(ended, func(a, b EndedRun) int { return a.ended.Compare(b.ended) })
	return slices.DeleteFunc(ended, func(o EndedRun) bool { return !o.ended.After(r.known) })
}

// Learn learns from ended runs. It returns the drifts that they show.
func (r *Runtimes) Learn(ended []EndedRun) []forecast.Drift {
	var found []forecast.Drift
	for i := range ended {
		o := &ended[i]
		r.unsaved++
		if o.ended.After(r.latest) {
			r.latest = o.ended
		}
		if d, drifted := r.model.Observe(o.run); drifted {
			r.drifts++
			found = append(found, d)
		}
	}
	return found
}

// CheckOverdue reports to the model which runs have exceeded their predicted p90.
func (r *Runtimes) CheckOverdue(now time.Time) {
	for _, j := range r.live { // order-free except for rounding: every run moves the same corrections by the same steps
		if !j.isPredicted() || j.overdue || j.began.IsZero() || j.carried+now.Sub(j.began) <= j.told.P90 {
			continue
		}
		j.overdue = true
		if j.began.Add(j.told.P90 - j.carried).After(r.known) {
			r.model.Overdue(forecast.FeaturesOf(j.job), j.prediction())
		}
	}
}

// Predict estimates the runtime of a job.
func (r *Runtimes) Predict(j *ares.Job) ares.RuntimePredicted {
	return r.model.Predict(forecast.FeaturesOf(j)).Record(j.ID)
}

// Accuracy returns three numbers: the runs that had a prediction, the runs among them that took no longer than their p90, and the number
// of detected drifts.
func (r *Runtimes) Accuracy() (told, covered, drifts int) {
	told, covered = r.model.Accuracy()
	return told, covered, r.drifts
}

// StartPredicting makes Next return predictions, first for all live jobs without one, in the order of their acceptance.
func (r *Runtimes) StartPredicting() {
	r.predicting = true
	for _, j := range r.live { // order-free: sorted below
		r.want(j)
	}
	slices.SortFunc(r.wanted, func(a, b *liveJob) int {
		return cmp.Or(cmp.Compare(a.job.Revision, b.job.Revision), cmp.Compare(b.job.ID, a.job.ID))
	})
}

// StopPredicting ends what StartPredicting began.
func (r *Runtimes) StopPredicting() { r.predicting, r.wanted = false, nil }

// The method `want` adds a job to the queue of jobs that need a prediction.
func (r *Runtimes) want(j *liveJob) {
	if r.predicting && !j.isPredicted() && !j.ended {
		r.arrived++
		r.wanted = append(r.wanted, j)
	}
}

// Arrived returns the number of jobs that began to need a prediction since the previous call.
func (r *Runtimes) Arrived() int {
	n := r.arrived
	r.arrived = 0
	return n
}

// Prediction is the predicted runtime of a live job.
type Prediction struct {
	ares.RuntimePredicted

	Accepted int64 // revision of the job's record
	of       *liveJob
}

// Next returns up to `limit` predictions for jobs that have none, and removes these jobs from the queue. A job has its
// prediction when Follow receives the event with the prediction. If the prediction could not be stored, the caller returns
// it with PutBack.
func (r *Runtimes) Next(limit int) (out []Prediction) {
	for len(r.wanted) > 0 && len(out) < limit {
		j := r.wanted[0]
		r.wanted = r.wanted[1:]
		if j.isPredicted() || j.ended || r.live[j.job.ID] != j {
			continue
		}
		out = append(out, Prediction{r.Predict(j.job), j.job.Revision, j})
	}
	return out
}

// PutBack returns jobs to the front of the queue, because their predictions could not be stored.
func (r *Runtimes) PutBack(list []Prediction) {
	back := make([]*liveJob, len(list), len(list)+len(r.wanted))
	for i := range list {
		back[i] = list[i].of
	}
	r.wanted = append(back, r.wanted...)
}

// Unsaved returns the number of runs that were learned since the model was last saved.
func (r *Runtimes) Unsaved() int { return r.unsaved }

// Save returns the model as bytes. The model includes all runs that ended until Until().
func (r *Runtimes) Save() []byte { return r.model.Save() }

// SaveWithin is like Save, but the result has at most `limit` bytes, or forecast.MinSaveBytes if that is more. If the model
// is larger, the jobs that have had no run for the longest time are left out.
func (r *Runtimes) SaveWithin(limit int) []byte { return r.model.SaveWithin(limit) }

// MarkSaved says that the model was stored when Unsaved returned `runs`.
func (r *Runtimes) MarkSaved(runs int) { r.unsaved -= runs }
