package history

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// TenantUse is a tenant together with its current usage.
type TenantUse struct {
	Tenant  *ares.Tenant
	Use     ares.Use
	Waiting int // jobs
}

// PutTenants replaces the content of the table of tenants. The table is for people who query the database; Ares does
// not read it.
func (h *History) PutTenants(ctx context.Context, tenants []TenantUse, at time.Time) error {
	r := &rows{table: "tenants", columns: []string{
		"tenant", "name", "max_gpus", "max_gpu_memory_mb", "max_cpu_cores", "max_memory_mb", "max_concurrent_jobs", "max_pending_jobs",
		"priority_tier", "fair_share_weight", "allow_preemption", "gpu_hours_per_month",
		"gpus_in_use", "cpu_cores_in_use", "memory_mb_in_use", "jobs_running", "jobs_waiting", "as_of",
	}}
	for _, t := range tenants {
		l, u := t.Tenant.Limits, t.Use
		r.add(t.Tenant.ID, text(t.Tenant.Name), limit(l.GPUs), limit(l.GPUMemoryMB), limit(l.CPUs), limit(l.MemoryMB), limit(l.ConcurrentJobs), limit(l.PendingJobs),
			string(t.Tenant.PriorityTier), t.Tenant.Weight, t.Tenant.MayPreempt, budget(t.Tenant.GPUHours),
			float64(u.GPUs)+float64(u.GPUMilli)/1000, u.WholeCPUs(), u.MemoryMB, u.Jobs, t.Waiting, h.dialect.at(at))
	}
	return h.inTransaction(ctx, func(w *writer) error {
		if err := w.exec(ctx, "DELETE FROM tenants"); err != nil {
			return err
		}
		return r.insert(ctx, w, "")
	})
}

// This function converts the limit of a tenant to a column value. The value is NULL if there is no
// limit.
func limit(n int) any {
	if n >= ares.Unlimited {
		return nil
	}
	return n
}

func budget(hours int) any {
	if hours == 0 {
		return nil
	}
	return hours
}
