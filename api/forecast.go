package api

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// PredictJob implements apipb.JobServiceServer.
func (d *jobDoor) PredictJob(ctx context.Context, req *apipb.PredictJobRequest) (*apipb.PredictJobResponse, error) {
	switch {
	case req.GetJob() != nil && req.GetJobId() != "":
		return nil, ares.Errorf(ares.Invalid, "give a job or the ID of one, not both").At("job_id")
	case req.GetJobId() != "":
		return d.predictSubmitted(ctx, req.GetJobId())
	case d.cfg.Predict == nil:
		return nil, errNoForecasts
	}
	job, err := d.cfg.Desk.Draft(ctx, req.GetJob().Spec(), caller(ctx))
	if err != nil {
		return nil, err
	}
	p := d.cfg.Predict(job)
	return &apipb.PredictJobResponse{Forecast: newForecast(&p, nil)}, nil
}

var errNoForecasts = ares.Errorf(ares.Unavailable, "this server predicts no runtimes")

// predictSubmitted answers what was said of a job when it was accepted, or would
// be said now.
func (d *jobDoor) predictSubmitted(ctx context.Context, id string) (*apipb.PredictJobResponse, error) {
	snap, err := d.snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case snap.Tombstone != nil:
		return nil, ares.Errorf(ares.Conflict, "job %s is archived: it runs no more", id)
	case snap.Run.Phase.Final():
		return nil, ares.Errorf(ares.Conflict, "job %s is %s: it runs no more", id, snap.Run.Phase)
	}
	if f := d.forecast(snap.Job, &snap.Run); f != nil {
		return &apipb.PredictJobResponse{Forecast: f}, nil
	}
	if d.cfg.Predict == nil {
		return nil, errNoForecasts
	}
	p := d.cfg.Predict(snap.Job)
	return &apipb.PredictJobResponse{Forecast: newForecast(&p, &snap.Run)}, nil
}

// forecast is what was said of a job that has not ended, nil when nothing was.
func (d *Doors) forecast(j *ares.Job, r *ares.Run) *apipb.RuntimeForecast {
	e := d.cfg.View.Job(j.ID)
	if e == nil || e.Forecast == nil || e.Job.Revision != j.Revision || r.Phase.Final() {
		return nil
	}
	return newForecast(e.Forecast, r)
}

// newForecast is a prediction in its public form. What has passed of the ends is
// told too: that says how late a run is.
func newForecast(p *ares.RuntimePredicted, r *ares.Run) *apipb.RuntimeForecast {
	m := &apipb.RuntimeForecast{P50Seconds: p.P50.Seconds(), P90Seconds: p.P90.Seconds(), Basis: p.Basis}
	if r == nil {
		return m
	}
	if a := r.Current(); a != nil && !a.StartedAt.IsZero() {
		m.P50End, m.P90End = apipb.Timestamp(a.StartedAt.Add(p.P50)), apipb.Timestamp(a.StartedAt.Add(p.P90))
	}
	return m
}
