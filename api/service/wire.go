package service

import (
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// NewJob converts a job to its public form, without its spec.
func NewJob(j *ares.Job, r *ares.Run, p *ares.Progress) *apipb.Job {
	m := &apipb.Job{
		JobId: string(j.ID), Id: string(j.ID), Name: j.Name, TenantId: j.Tenant, Queue: j.Queue,
		State: string(r.Phase), Reason: r.Reason,
		Priority: int32(j.PriorityValue()), PriorityClass: string(j.PriorityClass),
		Members: int32(j.Members), GpuCount: int32(j.GPUs), GpuMilli: int32(j.GPUMilli), GpuMemoryMb: int32(j.GPUMemoryMB),
		CpuCores: int32(j.CPUs), CpuMilli: int32(j.CPUMilli), MemoryMb: int32(j.MemoryMB),
		Command: j.Command, Args: j.Args, Image: j.Image, ImageDigest: r.ImageDigest,
		CreatedAt: apipb.Timestamp(j.AcceptedAt), FinishedAt: apipb.Timestamp(r.FinishedAt),
		Attempt: int32(r.Placed), Retries: int32(r.Retries), Preemptions: int32(r.Preemptions),
		RetryOf: string(j.RetryOf), SubmittedBy: j.Owner, PolicyNotes: notesOf(j),
		ArrayOf: string(j.ArrayOf), ArrayIndex: j.ArrayIndex, Labels: j.Labels,
		Revision: strconv.FormatInt(max(j.Revision, r.Revision), 10),
		Cluster:  r.Cluster, Granted: j.Origin != nil,
	}
	if r.Phase == ares.Retrying {
		m.NotBefore = apipb.Timestamp(r.NotBefore)
	}
	if s := r.Stop; s != nil && !r.Phase.Final() {
		m.Stop = &apipb.StopIntent{Why: string(s.Why), By: s.RequestedBy(j.Tenant), At: apipb.Timestamp(s.At)}
	}
	if p != nil {
		m.Progress = &apipb.JobProgress{Percent: p.Percent, Message: p.Message, At: apipb.Timestamp(p.At)}
	}
	if last := r.Last(); last != nil {
		m.StartedAt = apipb.Timestamp(last.StartedAt)
	} else if j.IsArray() {
		m.StartedAt = apipb.Timestamp(begun(r))
	}
	for i := range r.Attempts {
		m.Attempts = append(m.Attempts, newAttempt(&r.Attempts[i]))
	}
	if r.Phase.Final() {
		m.Result = newResult(r)
	}
	return m
}

// The function `begun` returns the time when the first elements of an array were placed, or zero if
// none has been placed.
func begun(r *ares.Run) time.Time {
	for _, t := range r.Transitions {
		if t.Phase == ares.Running {
			return t.At
		}
	}
	return time.Time{}
}

// newElements counts an array's elements by state. newElements returns nil for a job that is not an array.
func newElements(v *cache.View, j *ares.Job) *apipb.ArrayElements {
	if !j.IsArray() {
		return nil
	}
	return elementsOf(v.Elements(j))
}

func elementsOf(e ares.Elements) *apipb.ArrayElements {
	return &apipb.ArrayElements{
		Total: int32(e.Total), Made: int32(e.Made), Running: int32(e.Running), Waiting: int32(e.Waiting),
		Succeeded: int32(e.Succeeded), Failed: int32(e.Failed), Cancelled: int32(e.Cancelled), Lost: int32(e.Lost),
	}
}

// newListedJob converts a job to the form that lists show, with only its latest
// attempt.
func newListedJob(e *cache.Entry) *apipb.Job {
	run := e.Run
	if n := len(run.Attempts); n > 1 {
		run.Attempts = run.Attempts[n-1:]
	}
	return NewJob(e.Job, &run, e.Progress)
}

// newArchivedJob returns the public form of a job of which only the tombstone is left. The error `why` is
// the reason why nothing else is known about the job.
func newArchivedJob(t *store.Tombstone, why error) *apipb.Job {
	return &apipb.Job{
		JobId: string(t.ID), Id: string(t.ID), State: string(t.Phase), FinishedAt: apipb.Timestamp(t.EndedAt),
		Reason: onlyTheEnd(why), Archived: true,
		Result: &apipb.JobResult{Outcome: string(outcomeOf(t.Phase))},
	}
}

// onlyTheEnd explains why only the end of an archived job is known. The text
// depends on the error that the history database returned.
func onlyTheEnd(why error) string {
	if ares.CodeOf(why) == ares.NotFound {
		return "archived: only how it ended is kept"
	}
	return "archived: history does not answer, so only how it ended can be told"
}

// outcomeOf returns the outcome of a job of which only the phase is known.
func outcomeOf(p ares.Phase) ares.Outcome {
	switch p {
	case ares.Succeeded:
		return ares.OutcomeSucceeded
	case ares.Cancelled, ares.Returned:
		return ares.OutcomeStopped
	case ares.Lost:
		return ares.OutcomeLost
	default:
		return ares.OutcomeFailed
	}
}

func newResult(r *ares.Run) *apipb.JobResult {
	if last := r.Last(); last != nil && last.Ended() {
		return &apipb.JobResult{ExitCode: int32(last.ExitCode), Outcome: string(last.Outcome), Reason: last.Reason}
	}
	return &apipb.JobResult{Outcome: string(outcomeOf(r.Phase)), Reason: r.Reason}
}

func newAttempt(a *ares.Attempt) *apipb.Attempt {
	m := &apipb.Attempt{
		Number: int32(a.Number), Fence: strconv.FormatInt(int64(a.Fence), 10),
		PlacedAt: apipb.Timestamp(a.PlacedAt), StartedAt: apipb.Timestamp(a.StartedAt), EndedAt: apipb.Timestamp(a.EndedAt),
		Outcome: string(a.Outcome), Reason: a.Reason, ExitCode: int32(a.ExitCode), Score: int32(a.Score),
		PlacementScore: newPlacementScore(a.PlacementScore), CheckpointedAt: apipb.Timestamp(a.CheckpointedAt), Cluster: a.Cluster,
	}
	for i := range a.Seats {
		h := &a.Seats[i]
		seat := newSeat(&h.Seat)
		seat.State = string(h.State)
		if res := h.Result; res != nil {
			seat.Outcome, seat.ExitCode, seat.Reason = string(res.Outcome), int32(res.ExitCode), res.Reason
		}
		m.Seats = append(m.Seats, seat)
	}
	return m
}

// newTenant converts a tenant to its public form.
func newTenant(t *ares.Tenant, use ares.Use, waiting int) *apipb.Tenant {
	l := t.Limits
	m := &apipb.Tenant{
		Id: t.ID, Name: t.Name,
		MaxGpus: bound(l.GPUs), MaxGpuMemoryMb: bound(l.GPUMemoryMB), MaxCpuCores: bound(l.CPUs),
		MaxMemoryMb: bound(l.MemoryMB), MaxConcurrentJobs: bound(l.ConcurrentJobs), MaxPendingJobs: bound(l.PendingJobs),
		FairShareWeight: new(t.Weight), AllowPreemption: new(t.MayPreempt),
		CreatedAt: apipb.Timestamp(t.CreatedAt),
		Current:   newUse(use, waiting),
		Quotas:    newQuotas(t.Quotas),
	}
	if t.WeightMax != 0 {
		m.FairShareWeightMin, m.FairShareWeightMax = new(t.WeightMin), new(t.WeightMax)
	}
	if t.GPUHours != 0 {
		m.GpuHoursPerMonth = new(int32(t.GPUHours))
	}
	if t.PriorityTier != "" {
		m.PriorityTier = new(string(t.PriorityTier))
	}
	if t.LostAfterSecs != 0 {
		m.DefaultLostAfterSeconds = new(int32(t.LostAfterSecs))
	}
	if m.HubTenant = t.Shared != nil; t.Loan != nil {
		m.HubLoanGpus, m.HubMaxGpus = bound(t.Loan.GPUs), bound(t.Loan.Quota)
		if b := &t.Loan.Budget; b.Hours > 0 {
			m.HubLoanGpuHours, m.HubGpuHoursPerMonth = new(lentHours(b.Secs)), new(int32(b.Hours))
		}
	}
	return m
}

// newLoan converts a loan to its public form.
func newLoan(l *store.Loan, now time.Time) *apipb.TenantLoan {
	m := &apipb.TenantLoan{TenantId: l.Tenant, Cluster: l.Cluster, Gpus: bound(l.GPUs), Limit: bound(l.Limit)}
	if l.Hours.Kept {
		m.GpuHours, m.GpuHoursLimit = new(lentHours(l.Hours.Secs)), new(lentHours(l.Hours.Limit))
	}
	if h := l.Hours.In(now.UTC().Format(ares.MonthForm)); h.Kept || h.Used > 0 {
		m.GpuHoursUsed = new(lentHours(h.Used))
	}
	return m
}

// lentHours converts GPU-seconds to GPU-hours.
func lentHours(gpuSecs int64) float64 { return float64(gpuSecs) / 3600 }
