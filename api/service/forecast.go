package service

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// PredictJob implements apipb.JobServiceServer.
func (d *jobService) PredictJob(ctx context.Context, req *apipb.PredictJobRequest) (*apipb.PredictJobResponse, error) {
	switch {
	case req.GetJob() != nil && req.GetJobId() != "":
		return nil, ares.Errorf(ares.Invalid, "send either a job or a job ID, not both").At("job_id")
	case req.GetJobId() != "":
		return d.predictSubmitted(ctx, req.GetJobId())
	case d.Cfg.Predict == nil:
		return nil, errNoForecasts
	}
	job, err := d.Cfg.Admission.Draft(ctx, d.request(ctx, specOf(ctx, req.GetJob())))
	if err != nil {
		return nil, err
	}
	p := visibilityOf(ctx).roundPrediction(job, d.Cfg.Predict(job))
	return &apipb.PredictJobResponse{Forecast: NewForecast(&p, nil)}, nil
}

var errNoForecasts = ares.Errorf(ares.Unavailable, "this server does not predict runtimes")

// predictSubmitted returns the runtime prediction that was made when a job was
// accepted, or a new prediction if none was stored.
func (d *jobService) predictSubmitted(ctx context.Context, id string) (*apipb.PredictJobResponse, error) {
	snap, err := d.snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case snap.Tombstone != nil:
		return nil, ares.Errorf(ares.Conflict, "job %s is archived, so its runtime is not predicted", id)
	case snap.Run.Phase.Final():
		return nil, ares.Errorf(ares.Conflict, "job %s is %s, so its runtime is not predicted", id, snap.Run.Phase)
	}
	if f := d.forecast(visibilityOf(ctx), snap.Job, &snap.Run); f != nil {
		return &apipb.PredictJobResponse{Forecast: f}, nil
	}
	if d.Cfg.Predict == nil {
		return nil, errNoForecasts
	}
	p := visibilityOf(ctx).roundPrediction(snap.Job, d.Cfg.Predict(snap.Job))
	return &apipb.PredictJobResponse{Forecast: NewForecast(&p, &snap.Run)}, nil
}

// The method `forecast` returns the stored runtime prediction for a job. It returns nil if the
// job has ended or has no stored prediction.
func (d *Services) forecast(to Visibility, j *ares.Job, r *ares.Run) *apipb.RuntimeForecast {
	e := d.Cfg.View.Job(j.ID)
	if e == nil || e.Forecast == nil || e.Job.Revision != j.Revision || r.Phase.Final() {
		return nil
	}
	return NewForecast(new(to.roundPrediction(j, *e.Forecast)), r)
}

// NewForecast converts a prediction to its public form. Quantiles that users do not see are absent. The
// result includes predicted end times that have already passed, because they show how late a run is. It has
// end times only if earlier runs of the same job are known, because other jobs do not make a job late.
func NewForecast(p *ares.RuntimePredicted, r *ares.Run) *apipb.RuntimeForecast {
	p50, p90, basis := p.Shown()
	m := &apipb.RuntimeForecast{Basis: basis}
	if p50 > 0 {
		m.P50Seconds = new(p50.Seconds())
	}
	if p90 > 0 {
		m.P90Seconds = new(p90.Seconds())
	}
	if r == nil || p.Own == 0 {
		return m
	}
	if a := r.Current(); a != nil && !a.StartedAt.IsZero() {
		if p50 > 0 {
			m.P50End = apipb.Timestamp(a.StartedAt.Add(p50))
		}
		m.P90End = apipb.Timestamp(a.StartedAt.Add(p90))
	}
	return m
}
