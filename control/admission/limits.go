package admission

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/engine"
)

// batchCounts counts the new jobs that were prepared earlier in the same call. Jobs of the
// current call are not in the cache yet, but they must count against the limits.
type batchCounts struct {
	all int
	by  map[string]int // counts by tenant, and by queue ID
	// If the field lookUp is true, requests are looked up in Admission.Seen.
	lookUp bool
}

// findTenantAndQueue finds the tenant and the queue of a job in the cache. The cache may lag. If the caller asks
// for fresh records, or if the cache lacks the records, the function reads the store instead. The default queue
// exists even if it has no record.
func (a *Admission) findTenantAndQueue(ctx context.Context, spec *ares.Spec, fresh bool) (*ares.Tenant, *ares.Queue, error) {
	if spec.Tenant == "" {
		return nil, nil, NoTenant("")
	}
	tenant := a.View.Tenant(spec.Tenant)
	if tenant == nil || fresh {
		t, err := a.Store.Tenant(ctx, spec.Tenant)
		if ares.CodeOf(err) == ares.NotFound {
			return nil, nil, NoTenant(spec.Tenant)
		}
		if err != nil {
			return nil, nil, err
		}
		tenant = &t
	}
	name := cmp.Or(spec.Queue, ares.DefaultQueue)
	queue := a.View.Queue(spec.Tenant, name)
	if fresh || queue == nil && name != ares.DefaultQueue {
		q, err := a.Store.Queue(ctx, spec.Tenant, name)
		switch {
		case err == nil:
			queue = &q
		case ares.CodeOf(err) != ares.NotFound:
			return nil, nil, err
		case name != ares.DefaultQueue:
			return nil, nil, NoQueue(spec.Tenant, name)
		default:
			queue = nil
		}
	}
	if queue == nil {
		queue = new(ares.NewDefaultQueue(spec.Tenant))
	}
	return tenant, queue, nil
}

// NoTenant is the error for a submission to a tenant that does not exist or is not visible to the caller.
func NoTenant(id string) error {
	return ares.Errorf(ares.Invalid, "tenant_id: there is no tenant %q: create it first (POST /api/v1/tenants or `ares tenant create`)", id).At("tenant_id")
}

// NoQueue is the error for a submission to a queue that does not exist or is not visible to the caller.
func NoQueue(tenant, name string) error {
	return ares.Errorf(ares.Invalid, "queue: tenant %s has no queue %q: create it first (POST /api/v1/queues or `ares queue create`), or omit the queue", tenant, name).At("queue")
}

// checkLimits rejects a job in three cases: the job alone exceeds a limit of its tenant or
// queues, too many jobs are already waiting, or the job is a gang and this server rejects gangs.
// If a job only exceeds the currently free capacity, it is accepted and waits. The argument `whole` says whether the caller may
// see the whole tenant. If not, errors about the tenant and about the parents of the queue have no counts.
func (a *Admission) checkLimits(t *ares.Tenant, q *ares.Queue, effective *ares.Spec, batch *batchCounts, whole bool) error {
	if a.NoGangs && effective.Members > 1 {
		return ares.Errorf(ares.FeatureDisabled, "members: this server rejects jobs with several members: set members to 1, or ask the administrator to set scheduler.enable_gang_scheduling").At("members")
	}
	use, waiting := a.View.Use(t.ID)
	waiting += batch.by[t.ID]
	if err := t.Admits(*effective, use); err != nil {
		return withoutCount(err, whole)
	}
	if waiting >= t.Limits.PendingJobs {
		return withoutCount(ares.Errorf(ares.QuotaExceeded, "quota exceeded for tenant %s: pending jobs requested=1, quota=%d, current=%d", t.ID, t.Limits.PendingJobs, waiting), whole)
	}
	for level := 0; q != nil && level < ares.MaxQueueDepth; level++ {
		if what, asked, limit, over := q.Limits.Excess(effective.Asks()); over {
			return ares.Errorf(ares.QuotaExceeded, "quota exceeded for queue %s: %s requested=%d, quota=%d", q.ID(), what, asked, limit).At("queue")
		}
		if limit := q.Limits.PendingJobs; limit < ares.Unlimited {
			if waiting := a.waitingUnder(q, batch); waiting >= limit {
				return withoutCount(ares.Errorf(ares.QuotaExceeded, "quota exceeded for queue %s: pending jobs requested=1, quota=%d, current=%d", q.ID(), limit, waiting).At("queue"), whole || level == 0)
			}
		}
		if q.Parent == "" {
			break
		}
		q = a.View.Queue(q.Tenant, q.Parent)
	}
	if all := a.View.Waiting() + batch.all; a.MaxQueue > 0 && all >= a.MaxQueue {
		return ares.Errorf(ares.Exhausted, "too many jobs are already waiting in the cluster (the limit is %d): try again later", a.MaxQueue)
	}
	return nil
}

// withoutCount removes the current count from the text of an error, unless the caller may see it.
func withoutCount(err error, visible bool) error {
	text, _, counts := strings.Cut(err.Error(), ", current=")
	if visible || !counts {
		return err
	}
	out := ares.Errorf(ares.CodeOf(err), "%s", text)
	if with, ok := errors.AsType[*ares.Error](err); ok {
		out.Field = with.Field
	}
	return out
}

// waitingUnder counts the waiting jobs of a queue and of all queues below it.
func (a *Admission) waitingUnder(q *ares.Queue, batch *batchCounts) int {
	inside := map[string]bool{q.Name: true}
	queues := a.View.Queues(q.Tenant)
	for grown := true; grown; {
		grown = false
		for _, c := range queues {
			if !inside[c.Name] && c.Parent != "" && inside[c.Parent] {
				inside[c.Name], grown = true, true
			}
		}
	}
	total := 0
	for name := range inside { // order-free: a sum
		id := ares.QueueID(q.Tenant, name)
		_, waiting := a.View.Use(id)
		total += waiting + batch.by[id]
	}
	return total
}

// Feasibility determines which jobs can never run on the nodes known to this server, even if all these nodes are
// healthy and empty.
type Feasibility struct {
	view    *cache.View
	written func() int64 // the latest revision that this server acknowledged; see store.Store.Written

	mu    sync.Mutex
	nodes *engine.StaticFeasibility
}

// NewFeasibility returns a Feasibility. The given view keeps it up to date. The function `written` returns the latest
// revision that this server acknowledged.
func NewFeasibility(view *cache.View, written func() int64) *Feasibility {
	f := &Feasibility{view: view, written: written, nodes: engine.NewStaticFeasibility()}
	view.Feed(func(b ares.Batch) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.nodes.Apply(b)
	})
	return f
}

// maxFeasibilityLag is the longest time for which check waits until the view has the changes that this server acknowledged.
const maxFeasibilityLag = time.Second

// The method `check` rejects a job that the cluster could never run. The view may lag behind a change that this server has just
// acknowledged, for example a node with new labels. So before it rejects a job, check waits for the view and looks again.
func (f *Feasibility) check(ctx context.Context, stored *ares.Spec, trusted bool) error {
	if f == nil {
		return nil
	}
	upTo := f.view.Revision()
	err := f.checkCapacity(stored, trusted)
	acknowledged := f.written()
	if err == nil || upTo >= acknowledged {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, maxFeasibilityLag)
	defer cancel()
	if f.view.WaitFor(waiting, acknowledged) != nil {
		return err
	}
	return f.checkCapacity(stored, trusted)
}

// checkCapacity rejects a job that the cluster could never run, even when empty. A gang may request
// more GPUs than any node has without saying how many members it needs. checkCapacity splits such a
// gang into as few equal members as possible. The split does not change the total number of GPUs. The argument
// `trusted` says whether the job may use nodes that accept only jobs of platform administrators.
func (f *Feasibility) checkCapacity(stored *ares.Spec, trusted bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	never := f.nodes.Infeasible(stored.WithDefaults(), trusted)
	if never == nil {
		return nil
	}
	splits := stored.Gang != nil && *stored.Gang && stored.Members == 0 && stored.GPUs > 1 && !stored.HasOwnNetwork()
	if splits {
		parts, still := f.nodes.Split(*stored, trusted)
		if still == nil {
			*stored = parts
			return nil
		}
		never = still
	}
	field := "gpu_count"
	if stored.GPUs == 0 {
		field = ""
	}
	how := ""
	if splits {
		how = ", not even if it is split into equal members"
	}
	return ares.Errorf(ares.Infeasible, "the job can never run on the nodes of this cluster%s: %s", how, never).At(field)
}
