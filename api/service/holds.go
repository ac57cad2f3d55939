package service

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// These are the statuses in the answers of HoldJob and ReleaseJob.
const (
	statusHeld     = "held"
	statusReleased = "released"
	statusNotHeld  = "not_held"
)

// HoldJob implements apipb.JobServiceServer.
func (d *jobService) HoldJob(ctx context.Context, req *apipb.HoldJobRequest) (*apipb.HoldJobResponse, error) {
	if _, err := d.setHold(ctx, req.GetJobId(), true); err != nil {
		return nil, err
	}
	return &apipb.HoldJobResponse{JobId: req.GetJobId(), Status: statusHeld, Message: "Job is held until it is released"}, nil
}

// ReleaseJob implements apipb.JobServiceServer.
func (d *jobService) ReleaseJob(ctx context.Context, req *apipb.ReleaseJobRequest) (*apipb.ReleaseJobResponse, error) {
	changed, err := d.setHold(ctx, req.GetJobId(), false)
	if err != nil {
		return nil, err
	}
	if !changed {
		return &apipb.ReleaseJobResponse{JobId: req.GetJobId(), Status: statusNotHeld, Message: "Job was not held"}, nil
	}
	return &apipb.ReleaseJobResponse{JobId: req.GetJobId(), Status: statusReleased, Message: "Job is released"}, nil
}

// setHold holds or releases a job. It reports whether the call changed the job.
func (d *jobService) setHold(ctx context.Context, id string, held bool) (changed bool, err error) {
	if err := pipeline.CheckJobID(id); err != nil {
		return false, err
	}
	was := d.Cfg.View.Job(ares.JobID(id))
	changed, run, err := d.Cfg.Admission.SetHold(ctx, ares.JobID(id), held, pipeline.CallerName(ctx))
	if was != nil {
		pipeline.AuditChange(ctx, was.Job.Tenant, was.Run, run)
	}
	return changed, err
}
