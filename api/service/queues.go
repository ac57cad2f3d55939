package service

import (
	"context"
	"maps"
	"reflect"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// queueService implements QueueService.
type queueService struct {
	apipb.UnimplementedQueueServiceServer
	*Services
}

// CreateQueue implements apipb.QueueServiceServer. Repeating an identical
// request changes nothing.
func (d *queueService) CreateQueue(ctx context.Context, req *apipb.CreateQueueRequest) (*apipb.CreateQueueResponse, error) {
	m := req.GetQueue()
	q := ares.Queue{Tenant: pipeline.CallOf(ctx).Tenant, Name: m.GetName(), Weight: 1, Limits: ares.NoLimits(), CreatedAt: d.Cfg.Now().UTC()}
	if err := mergeQueue(&q, m, false); err != nil {
		return nil, err
	}
	made, err := d.Cfg.Store.CreateQueue(ctx, q)
	if ares.CodeOf(err) == ares.Conflict {
		if there, readErr := d.Cfg.Store.Queue(ctx, q.Tenant, q.Name); readErr == nil {
			same := there
			same.CreatedAt, same.Revision = q.CreatedAt, q.Revision
			if reflect.DeepEqual(same, q) {
				made, err = there, nil
			}
		}
	}
	if err != nil {
		return nil, err
	}
	pipeline.AuditCreation(ctx, made.Tenant, made, made.CreatedAt.Equal(q.CreatedAt))
	d.WaitForView(ctx, made.Revision)
	return &apipb.CreateQueueResponse{Queue: d.queue(&made)}, nil
}

// GetQueue implements apipb.QueueServiceServer.
func (d *queueService) GetQueue(ctx context.Context, req *apipb.GetQueueRequest) (*apipb.GetQueueResponse, error) {
	q, err := d.read(ctx, req.GetTenantId(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &apipb.GetQueueResponse{Queue: d.queue(&q)}, nil
}

// The method `read` returns a queue. The default queue exists even if it is not
// stored.
func (d *queueService) read(ctx context.Context, tenant, name string) (ares.Queue, error) {
	if err := pipeline.CheckQueueName(tenant, name); err != nil {
		return ares.Queue{}, err
	}
	q, err := d.Cfg.Store.Queue(ctx, tenant, name)
	if name == ares.DefaultQueue && ares.CodeOf(err) == ares.NotFound {
		if _, err = d.Cfg.Store.Tenant(ctx, tenant); err == nil {
			q = ares.NewDefaultQueue(tenant)
		}
	}
	return q, err
}

// ListQueues implements apipb.QueueServiceServer.
func (d *queueService) ListQueues(ctx context.Context, req *apipb.ListQueuesRequest) (*apipb.ListQueuesResponse, error) {
	if t := req.GetTenantId(); t != "" && d.Cfg.View.Tenant(t) == nil {
		return nil, pipeline.NoTenant(t)
	}
	to := visibilityOf(ctx)
	all := slices.DeleteFunc(d.Cfg.View.Queues(req.GetTenantId()), func(q *ares.Queue) bool { return !to.sees(q.Tenant, q.Name) })
	queues, next, err := PageByID(all, req.GetPageSize(), req.GetPageToken(), func(q *ares.Queue) string { return q.ID() }, d.queue)
	return &apipb.ListQueuesResponse{Queues: queues, Total: int32(len(all)), NextPageToken: next}, err
}

// UpdateQueue implements apipb.QueueServiceServer. Fields that the request does
// not change keep their stored values, so a concurrent change to them is not
// undone.
func (d *queueService) UpdateQueue(ctx context.Context, req *apipb.UpdateQueueRequest) (*apipb.UpdateQueueResponse, error) {
	m, reset, err := Masked(req.GetQueue(), req.GetUpdateMask())
	if err != nil {
		return nil, err
	}
	var p ares.Problems
	if n := m.GetName(); n != "" && n != req.GetName() {
		p.Add("name", "a queue's name cannot be changed: create another queue")
	}
	if t := m.GetTenantId(); t != "" && t != req.GetTenantId() {
		p.Add("tenant_id", "a queue's tenant cannot be changed: create another queue")
	}
	if err = p.Err(); err != nil {
		return nil, err
	}
	return store.Retry(tenantTries, func() (*apipb.UpdateQueueResponse, error) {
		q, err := d.read(ctx, req.GetTenantId(), req.GetName())
		if err != nil {
			return nil, err
		}
		was := q
		resetQueue(&q, reset)
		if err = mergeQueue(&q, m, req.GetClearQuotas()); err != nil {
			return nil, err
		}
		write := d.Cfg.Store.UpdateQueue
		if q.Revision == 0 { // the default queue gets its first settings
			q.CreatedAt, write = d.Cfg.Now().UTC(), d.Cfg.Store.CreateQueue
		}
		made, err := write(ctx, q)
		if ares.CodeOf(err) == ares.Conflict {
			return nil, store.Conflict{Err: err}
		}
		if err != nil {
			return nil, err
		}
		pipeline.AuditChange(ctx, made.Tenant, was, made)
		d.WaitForView(ctx, made.Revision)
		return &apipb.UpdateQueueResponse{Queue: d.queue(&made)}, nil
	})
}

// DeleteQueue implements apipb.QueueServiceServer.
func (d *queueService) DeleteQueue(ctx context.Context, req *apipb.DeleteQueueRequest) (*apipb.DeleteQueueResponse, error) {
	was, err := d.read(ctx, req.GetTenantId(), req.GetName())
	if err != nil {
		return nil, err
	}
	if err := d.Cfg.Admission.DeleteQueue(ctx, req.GetTenantId(), req.GetName()); err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, was.Tenant, was, nil)
	return &apipb.DeleteQueueResponse{Message: "Queue " + ares.QueueID(req.GetTenantId(), req.GetName()) + " deleted"}, nil
}

// GetFairness implements apipb.QueueServiceServer.
func (d *queueService) GetFairness(ctx context.Context, req *apipb.GetFairnessRequest) (*apipb.GetFairnessResponse, error) {
	if t := req.GetTenantId(); t != "" && d.Cfg.View.Tenant(t) == nil {
		return nil, pipeline.NoTenant(t)
	}
	f := d.Cfg.Engine.Fairness()
	resp := &apipb.GetFairnessResponse{}
	if visibilityOf(ctx).sees("", "") { // with few tenants, the index tells the shares of the others
		resp.JainIndex = float64(f.Jain) / 1000
	}
	for _, s := range f.Shares {
		if t := req.GetTenantId(); t != "" && t != s.Tenant || !visibilityOf(ctx).share(s) {
			continue
		}
		resp.Shares = append(resp.Shares, newFairShare(s))
	}
	return resp, nil
}

// The method `queue` converts a queue to its public form, with the current
// usage of its jobs.
func (d *Services) queue(q *ares.Queue) *apipb.Queue {
	use, waiting := d.Cfg.View.Use(q.ID())
	return newQueue(q, use, waiting)
}

// mergeQueue copies to q the fields that the request sets, and checks the
// result.
func mergeQueue(q *ares.Queue, m *apipb.Queue, clearQuotas bool) error {
	var p ares.Problems
	for _, l := range []struct {
		name string
		to   *int
		v    *int32
	}{
		{"max_gpus", &q.Limits.GPUs, m.MaxGpus},
		{"max_gpu_memory_mb", &q.Limits.GPUMemoryMB, m.MaxGpuMemoryMb},
		{"max_cpu_cores", &q.Limits.CPUs, m.MaxCpuCores},
		{"max_memory_mb", &q.Limits.MemoryMB, m.MaxMemoryMb},
		{"max_concurrent_jobs", &q.Limits.ConcurrentJobs, m.MaxConcurrentJobs},
		{"max_pending_jobs", &q.Limits.PendingJobs, m.MaxPendingJobs},
	} {
		if l.v != nil && *l.v < 0 {
			p.Add(l.name, "must be 0 or more, or absent for no limit, got %d", *l.v)
		} else if l.v != nil {
			*l.to = int(*l.v)
		}
	}
	notGiven(&p, map[string]bool{"current": m.GetCurrent() != nil, "created_at": m.GetCreatedAt() != nil, "id": m.GetId() != ""})
	if m.Parent != nil {
		q.Parent = m.GetParent()
	}
	if m.Weight != nil {
		if q.Weight = m.GetWeight(); q.Weight == 0 { // a stored weight of 0 would mean that none was set
			p.Add("weight", "must be between %v and %v, got 0", ares.MinWeight, ares.MaxWeight)
		}
	}
	q.Quotas = mergeQuotas(&p, q.Quotas, m.GetQuotas(), clearQuotas)
	if bad, ok := q.Check().(*ares.InvalidRequest); ok { //nolint:errorlint // Check makes it itself
		p = append(p, bad.Problems...)
	}
	return p.Err()
}

// mergeQuotas returns the quotas in the request, or the previous quotas if the
// request has none.
func mergeQuotas(p *ares.Problems, was []ares.Quota, given []*apipb.Quota, none bool) []ares.Quota {
	switch {
	case none && len(given) > 0:
		p.Add("quotas", "give either quotas or clear_quotas, not both")
		return was
	case none:
		return nil
	case len(given) > 0:
		return quotasOf(given)
	default:
		return was
	}
}

// notGiven adds a problem for each field that a request sets but that only an
// answer may contain.
func notGiven(p *ares.Problems, fields map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] {
			p.Add(name, "is not part of a request: remove it")
		}
	}
}
