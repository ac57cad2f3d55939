package api

import (
	"context"
	"maps"
	"reflect"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// queueDoor is the QueueService.
type queueDoor struct {
	apipb.UnimplementedQueueServiceServer
	*Doors
}

// CreateQueue implements apipb.QueueServiceServer. The same request may be
// repeated.
func (d *queueDoor) CreateQueue(ctx context.Context, req *apipb.CreateQueueRequest) (*apipb.CreateQueueResponse, error) {
	m := req.GetQueue()
	q := ares.Queue{Tenant: m.GetTenantId(), Name: m.GetName(), Weight: 1, Limits: ares.NoLimits(), CreatedAt: d.cfg.Now().UTC()}
	if q.Tenant == "" {
		q.Tenant = ares.DefaultTenant
	}
	if err := mergeQueue(&q, m, false); err != nil {
		return nil, err
	}
	made, err := d.cfg.Store.CreateQueue(ctx, q)
	if ares.CodeOf(err) == ares.Conflict {
		if there, readErr := d.cfg.Store.Queue(ctx, q.Tenant, q.Name); readErr == nil {
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
	created(ctx, made.Tenant, made, made.CreatedAt.Equal(q.CreatedAt))
	d.seen(ctx, made.Revision)
	return &apipb.CreateQueueResponse{Queue: d.queue(&made)}, nil
}

// GetQueue implements apipb.QueueServiceServer.
func (d *queueDoor) GetQueue(ctx context.Context, req *apipb.GetQueueRequest) (*apipb.GetQueueResponse, error) {
	q, err := d.read(ctx, req.GetTenantId(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &apipb.GetQueueResponse{Queue: d.queue(&q)}, nil
}

// read finds a queue; the default one is there without being stored.
func (d *queueDoor) read(ctx context.Context, tenant, name string) (ares.Queue, error) {
	if err := queueNames(tenant, name); err != nil {
		return ares.Queue{}, err
	}
	q, err := d.cfg.Store.Queue(ctx, tenant, name)
	if name == ares.DefaultQueue && ares.CodeOf(err) == ares.NotFound {
		if _, err = d.cfg.Store.Tenant(ctx, tenant); err == nil {
			q = ares.NewDefaultQueue(tenant)
		}
	}
	return q, err
}

func queueNames(tenant, name string) error {
	if ares.ValidName(tenant) && ares.ValidName(name) {
		return nil
	}
	return ares.Errorf(ares.NotFound, "there is no queue %q of tenant %q", clip(name), clip(tenant)).At("name")
}

// noTenant is the answer to a list of a tenant that is not there, or that its
// caller may not know of.
func noTenant(id string) error {
	return ares.Errorf(ares.NotFound, "there is no tenant %q", clip(id)).At("tenant_id")
}

// ListQueues implements apipb.QueueServiceServer.
func (d *queueDoor) ListQueues(ctx context.Context, req *apipb.ListQueuesRequest) (*apipb.ListQueuesResponse, error) {
	if t := req.GetTenantId(); t != "" && d.cfg.View.Tenant(t) == nil {
		return nil, noTenant(t)
	}
	to := eyesOf(ctx)
	all := slices.DeleteFunc(d.cfg.View.Queues(req.GetTenantId()), func(q *ares.Queue) bool { return !to.sees(q.Tenant, q.Name) })
	queues, next, err := pageByID(all, req.GetPageSize(), req.GetPageToken(), func(q *ares.Queue) string { return q.ID() }, d.queue)
	return &apipb.ListQueuesResponse{Queues: queues, Total: int32(len(all)), NextPageToken: next}, err
}

// UpdateQueue implements apipb.QueueServiceServer. Fields that are not given
// stay, so somebody else's change in between does not matter.
func (d *queueDoor) UpdateQueue(ctx context.Context, req *apipb.UpdateQueueRequest) (*apipb.UpdateQueueResponse, error) {
	m := req.GetQueue()
	var p ares.Problems
	if n := m.GetName(); n != "" && n != req.GetName() {
		p.Add("name", "a queue's name cannot be changed: create another queue")
	}
	if t := m.GetTenantId(); t != "" && t != req.GetTenantId() {
		p.Add("tenant_id", "a queue's tenant cannot be changed: create another queue")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		q, err := d.read(ctx, req.GetTenantId(), req.GetName())
		if err != nil {
			return nil, err
		}
		was := q
		if err = mergeQueue(&q, m, req.GetClearQuotas()); err != nil {
			return nil, err
		}
		write := d.cfg.Store.UpdateQueue
		if q.Revision == 0 { // the default queue gets its first settings
			q.CreatedAt, write = d.cfg.Now().UTC(), d.cfg.Store.CreateQueue
		}
		made, err := write(ctx, q)
		if ares.CodeOf(err) == ares.Conflict && try < tenantTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		changed(ctx, made.Tenant, was, made)
		d.seen(ctx, made.Revision)
		return &apipb.UpdateQueueResponse{Queue: d.queue(&made)}, nil
	}
}

// DeleteQueue implements apipb.QueueServiceServer.
func (d *queueDoor) DeleteQueue(ctx context.Context, req *apipb.DeleteQueueRequest) (*apipb.DeleteQueueResponse, error) {
	was, err := d.read(ctx, req.GetTenantId(), req.GetName())
	if err != nil {
		return nil, err
	}
	if err := d.cfg.Desk.DeleteQueue(ctx, req.GetTenantId(), req.GetName()); err != nil {
		return nil, err
	}
	changed(ctx, was.Tenant, was, nil)
	return &apipb.DeleteQueueResponse{Message: "Queue " + ares.QueueID(req.GetTenantId(), req.GetName()) + " deleted"}, nil
}

// GetFairness implements apipb.QueueServiceServer.
func (d *queueDoor) GetFairness(ctx context.Context, req *apipb.GetFairnessRequest) (*apipb.GetFairnessResponse, error) {
	if t := req.GetTenantId(); t != "" && d.cfg.View.Tenant(t) == nil {
		return nil, noTenant(t)
	}
	f := d.cfg.Engine.Fairness()
	resp := &apipb.GetFairnessResponse{JainIndex: float64(f.Jain) / 1000}
	for _, s := range f.Shares {
		if t := req.GetTenantId(); t != "" && t != s.Tenant || !eyesOf(ctx).share(s) {
			continue
		}
		resp.Shares = append(resp.Shares, newFairShare(s))
	}
	return resp, nil
}

// queue is a queue with what the jobs in it hold now.
func (d *Doors) queue(q *ares.Queue) *apipb.Queue {
	use, waiting := d.cfg.View.Use(q.ID())
	return newQueue(q, use, waiting)
}

// mergeQueue puts the fields that are given into q, and checks the whole.
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
			p.Add(l.name, "must be between 0 and 2147483647 (no limit), got %d", *l.v)
		} else if l.v != nil {
			*l.to = int(*l.v)
		}
	}
	notGiven(&p, map[string]bool{"current": m.GetCurrent() != nil, "created_at": m.GetCreatedAt() != nil, "id": m.GetId() != ""})
	if m.Parent != nil {
		q.Parent = m.GetParent()
	}
	if m.Weight != nil {
		if q.Weight = m.GetWeight(); q.Weight == 0 { // which is none given, once it is stored
			p.Add("weight", "must be between %v and %v, got 0", ares.MinWeight, ares.MaxWeight)
		}
	}
	q.Quotas = mergeQuotas(&p, q.Quotas, m.GetQuotas(), clearQuotas)
	if bad, ok := q.Check().(*ares.InvalidRequest); ok { //nolint:errorlint // Check makes it itself
		p = append(p, bad.Problems...)
	}
	return p.Err()
}

// mergeQuotas is the list that is given, or else the one before.
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

// notGiven reports fields that only answers have.
func notGiven(p *ares.Problems, fields map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] {
			p.Add(name, "is not part of a request: remove it")
		}
	}
}
