package service

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/admission"
)

// UpdateJob implements apipb.JobServiceServer.
func (d *jobService) UpdateJob(ctx context.Context, req *apipb.UpdateJobRequest) (*apipb.UpdateJobResponse, error) {
	u, err := updateOf(req)
	if err != nil {
		return nil, err
	}
	was := d.Cfg.View.Job(ares.JobID(req.GetJobId()))
	changed, run, err := d.Cfg.Admission.Update(ctx, ares.JobID(req.GetJobId()), u, pipeline.CallerName(ctx))
	if err != nil {
		return nil, err
	}
	if was != nil {
		pipeline.AuditCreation(ctx, was.Job.Tenant, run, changed) // records an unchanged job as such
		if changed {
			pipeline.AuditChange(ctx, was.Job.Tenant, was.Run, run)
		}
	}
	if !changed {
		return &apipb.UpdateJobResponse{JobId: req.GetJobId(), Status: "unchanged", Message: "The job has these values already"}, nil
	}
	return &apipb.UpdateJobResponse{JobId: req.GetJobId(), Status: "updated", Message: "Job updated"}, nil
}

// updateOf reads and checks the changes of a request.
func updateOf(req *apipb.UpdateJobRequest) (u admission.Update, err error) {
	if err = pipeline.CheckJobID(req.GetJobId()); err != nil {
		return u, err
	}
	u = admission.Update{Labels: req.GetLabels(), RemoveLabels: req.GetRemoveLabels(), PriorityClass: ares.Class(req.GetPriorityClass())}
	if u.Only, err = phasesOf(req.GetState()); err != nil {
		return u, err
	}
	if req.Priority != nil {
		u.Priority = new(int(req.GetPriority()))
		if class, ok := ares.LevelOf(*u.Priority); ok && u.PriorityClass == "" { // a level, as in a submission
			u.Priority, u.PriorityClass = nil, class
		}
	}
	if req.MaxRuntimeMinutes != nil {
		u.MaxRuntimeMinutes = new(int(req.GetMaxRuntimeMinutes()))
	}
	switch {
	case u.Priority != nil && u.PriorityClass != "":
		return u, ares.Errorf(ares.Invalid, "priority_class: use priority or priority_class, not both").At("priority_class")
	case u.PriorityClass != "" && u.PriorityClass.Rank() < 0: // LevelOf returns only known classes
		return u, ares.Errorf(ares.Invalid, "priority_class: %q is unknown: use best-effort, low, normal, high or critical", ares.Clip(req.GetPriorityClass())).At("priority_class")
	case u.Priority == nil && u.PriorityClass == "" && u.MaxRuntimeMinutes == nil && len(u.Labels) == 0 && len(u.RemoveLabels) == 0:
		return u, ares.Errorf(ares.Invalid, "the request changes nothing: set priority, priority_class, max_runtime_minutes, labels or remove_labels")
	}
	return u, nil
}
