package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// queueTree holds a tenant's queues at one revision.
type queueTree struct {
	tenant   string
	revision int64
	queues   map[string]*ares.Queue
	records  map[string]*storepb.Record
}

// CreateQueue adds a queue to its tenant's queue hierarchy. CreateQueue returns
// the queue with its revision. It also deletes the bindings that remain from an
// earlier queue with the same name. The default queue has no earlier one,
// because it exists even if it has no record.
func (s *Store) CreateQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	if q.Name != ares.DefaultQueue {
		if err := s.dropQueueRights(ctx, q.Tenant, q.Name); err != nil {
			return q, err
		}
	}
	return s.UndeleteQueue(ctx, q)
}

// UndeleteQueue restores a queue that was just deleted, with its bindings.
func (s *Store) UndeleteQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	q.Revision = 0
	return s.putQueue(ctx, q)
}

// UpdateQueue replaces a queue if its revision is still q.Revision.
func (s *Store) UpdateQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	if q.Revision == 0 {
		return q, NoQueue(q.Tenant, q.Name)
	}
	return s.putQueue(ctx, q)
}

// putQueue writes a queue if the tenant's queues still form a valid hierarchy after the write.
// The method requires that no other queue has changed in the meantime. Otherwise two changes
// that are valid by themselves could together form a cycle.
func (s *Store) putQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	return Retry(maxTries, func() (ares.Queue, error) {
		f, err := s.readQueueTree(ctx, q.Tenant)
		if err != nil {
			return q, err
		}
		if there := f.queues[q.Name]; there != nil && there.Revision != q.Revision {
			same := q
			same.Revision = there.Revision
			if sameQueue(&same, there) {
				return same, nil // an earlier try succeeded
			}
		}
		if err = f.admits(&q); err != nil {
			return q, err
		}
		rec := queueRecord(&q)
		if old := f.records[q.Name]; old != nil {
			copyUnknownFields(rec, old)
			copyUnknownFields(rec.GetQueue(), old.GetQueue())
		}
		value, err := marshal(rec)
		if err != nil {
			return q, err
		}
		key := queueKey(q.Tenant, q.Name)
		resp, err := s.txn(ctx, "write queue", append(f.unchanged(q.Parent),
			clientv3.Compare(clientv3.ModRevision(key), "=", q.Revision),
			clientv3.Compare(clientv3.CreateRevision(tenantKey(q.Tenant)), ">", 0),
		), []clientv3.Op{clientv3.OpPut(key, value)}, []clientv3.Op{clientv3.OpGet(tenantKey(q.Tenant), clientv3.WithKeysOnly())})
		if err != nil {
			return q, err
		}
		if resp.Succeeded {
			q.Revision = resp.Header.Revision
			return q, nil
		}
		if len(resp.Responses[0].GetResponseRange().Kvs) == 0 {
			return q, NoTenant(q.Tenant)
		}
		return q, Conflict{queuesChange(q.Tenant)}
	})
}

func queuesChange(tenant string) error {
	return ares.Errorf(ares.Exhausted, "the queues of tenant %s keep changing: try again", tenant)
}

// DeleteQueue deletes a queue if its revision is unchanged and it has no child queues. After the
// deletion, a concurrent submission to the queue fails.
func (s *Store) DeleteQueue(ctx context.Context, tenant, name string, revision int64) error {
	_, err := Retry(maxTries, func() (none struct{}, err error) {
		f, err := s.readQueueTree(ctx, tenant)
		if err != nil {
			return none, err
		}
		there := f.queues[name]
		switch {
		case there == nil:
			return none, NoQueue(tenant, name)
		case there.Revision != revision:
			return none, changedQueue(tenant, name)
		}
		if child := f.firstUnder(name); child != "" {
			return none, ares.Errorf(ares.Conflict, "queue %s has queues under it, such as %s: delete them first", ares.QueueID(tenant, name), child)
		}
		resp, err := s.txn(ctx, "delete queue",
			append(f.unchanged(""), clientv3.Compare(clientv3.ModRevision(queueKey(tenant, name)), "=", revision)),
			[]clientv3.Op{clientv3.OpDelete(queueKey(tenant, name))}, nil)
		if err != nil || resp.Succeeded {
			return none, err
		}
		return none, Conflict{queuesChange(tenant)}
	})
	return err
}

// Queue reads one queue with a linearizable read.
func (s *Store) Queue(ctx context.Context, tenant, name string) (ares.Queue, error) {
	key := queueKey(tenant, name)
	got, err := s.get(ctx, key)
	if err != nil {
		return ares.Queue{}, err
	}
	if len(got.Kvs) == 0 {
		return ares.Queue{}, NoQueue(tenant, name)
	}
	rec, err := unmarshal(key, got.Kvs[0].Value)
	if err != nil {
		return ares.Queue{}, err
	}
	return *queueOf(rec.GetQueue(), tenant, name, got.Kvs[0].ModRevision), nil
}

// DropQueues deletes the queues of a deleted tenant and their usage. DropQueues also deletes the
// tenant's tokens and bindings, and the roles of other tenants' tokens in the tenant.
func (s *Store) DropQueues(ctx context.Context, tenant string) error {
	_, err := s.txn(ctx, "drop queues",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(tenantKey(tenant)), "=", 0)},
		append(dropQueues(tenant), dropRights(tenant)...), nil)
	if err != nil {
		return err
	}
	return s.dropRightsElsewhere(ctx, tenant)
}

func dropQueues(tenant string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(queuesOf(tenant), clientv3.WithPrefix()),
		clientv3.OpDelete(usageOf(tenant), clientv3.WithPrefix()),
	}
}

// readQueueTree reads a tenant's queues with a linearizable read.
func (s *Store) readQueueTree(ctx context.Context, tenant string) (*queueTree, error) {
	list, revision, err := s.records(ctx, queuesOf(tenant))
	if err != nil {
		return nil, err
	}
	f := &queueTree{tenant: tenant, revision: revision, queues: map[string]*ares.Queue{}, records: map[string]*storepb.Record{}}
	for _, r := range list {
		f.queues[r.name], f.records[r.name] = queueOf(r.GetQueue(), tenant, r.name, r.revision), r.Record
	}
	return f, nil
}

// This method returns comparisons for a transaction. They fail if a queue of the tenant was
// written after the queues were read. They also fail if the parent was deleted.
func (f *queueTree) unchanged(parent string) []clientv3.Cmp {
	room := queuesOf(f.tenant)
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(room), "<", f.revision+1).WithPrefix()}
	if f.queues[parent] != nil {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(queueKey(f.tenant, parent)), ">", 0))
	}
	return cmps
}

// The tenant's queues, together with the queue q, must form a valid hierarchy
// within the limits. Otherwise this method returns an error.
func (f *queueTree) admits(q *ares.Queue) error {
	there := f.queues[q.Name]
	switch {
	case q.Revision == 0 && there != nil:
		return ares.Errorf(ares.Conflict, "queue %s exists already: choose another name, or change the existing queue with PATCH", q.ID()).At("name")
	case q.Revision != 0 && there == nil:
		return NoQueue(q.Tenant, q.Name)
	case q.Revision != 0 && there.Revision != q.Revision:
		return changedQueue(q.Tenant, q.Name)
	case there == nil && len(f.queues) >= ares.MaxQueues:
		return ares.Errorf(ares.LimitReached, "tenant %s has %d queues, which is the limit: delete some", q.Tenant, len(f.queues))
	}
	above := 1 // number of levels from q upwards, including q
	for up := q.Parent; up != "" && above <= ares.MaxQueueDepth; above++ {
		if up == q.Name {
			return ares.Errorf(ares.Invalid, "parent: queue %s is already under %s: queues cannot form a cycle", ares.QueueID(q.Tenant, q.Parent), q.Name).At("parent")
		}
		p := f.queues[up]
		if p == nil {
			if up == ares.DefaultQueue {
				above++
				break
			}
			return ares.Errorf(ares.Invalid, "parent: there is no queue %s of tenant %s: create it first", up, q.Tenant).At("parent")
		}
		up = p.Parent
	}
	if n := above + f.below(q.Name); n > ares.MaxQueueDepth {
		return ares.Errorf(ares.Invalid, "parent: the queues would be %d levels deep, but the limit is %d", n, ares.MaxQueueDepth).At("parent")
	}
	return nil
}

// This method returns the number of levels below a queue in the hierarchy.
func (f *queueTree) below(name string) int {
	under := map[string][]string{}
	for _, q := range f.queues { // order-free: only the deepest counts
		if q.Name != name { // skip the queue itself, because its parent is about to change
			under[q.Parent] = append(under[q.Parent], q.Name)
		}
	}
	depth, level := 0, under[name]
	for len(level) > 0 && depth <= ares.MaxQueueDepth {
		var next []string
		for _, q := range level {
			next = append(next, under[q]...)
		}
		depth, level = depth+1, next
	}
	return depth
}

func (f *queueTree) firstUnder(name string) string {
	first := ""
	for _, q := range f.queues { // order-free: the smallest name wins
		if q.Parent == name && (first == "" || q.Name < first) {
			first = q.Name
		}
	}
	return first
}

// sameQueue reports whether two queues have the same stored form.
func sameQueue(a, b *ares.Queue) bool {
	x, errX := marshal(queueRecord(a))
	y, errY := marshal(queueRecord(b))
	return errX == nil && errY == nil && x == y
}

// NoQueue is the error for a queue that does not exist or that the caller may not see. The error
// refers to the request field "name", unless the caller sets another field.
func NoQueue(tenant, name string) *ares.Error {
	return ares.Errorf(ares.NotFound, "there is no queue %s of tenant %s: create it (`ares queue create %s/%s`), or see `ares queue list`", name, tenant, tenant, name).At("name")
}

func changedQueue(tenant, name string) error {
	return ares.Errorf(ares.Conflict, "queue %s was changed by another request: read the queue again, and then repeat your request", ares.QueueID(tenant, name))
}
