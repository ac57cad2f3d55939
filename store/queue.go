package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// forest is a tenant's queues as they were at one revision.
type forest struct {
	tenant   string
	revision int64
	queues   map[string]*ares.Queue
	records  map[string]*storepb.Record
}

// CreateQueue adds a queue to its tenant's tree. It returns the queue with its
// revision.
func (s *Store) CreateQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	q.Revision = 0
	return s.putQueue(ctx, q)
}

// UpdateQueue replaces a queue that is still at q.Revision.
func (s *Store) UpdateQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	if q.Revision == 0 {
		return q, NoQueue(q.Tenant, q.Name)
	}
	return s.putQueue(ctx, q)
}

// putQueue writes a queue if the tree is one with it. It compares that the tree
// is as it was looked at: two changes, each right by itself, could make a ring.
func (s *Store) putQueue(ctx context.Context, q ares.Queue) (ares.Queue, error) {
	for range maxTries {
		f, err := s.forest(ctx, q.Tenant)
		if err != nil {
			return q, err
		}
		if there := f.queues[q.Name]; there != nil && there.Revision != q.Revision {
			same := q
			same.Revision = there.Revision
			if sameQueue(&same, there) {
				return same, nil // an earlier try of ours got through
			}
		}
		if err = f.admits(&q); err != nil {
			return q, err
		}
		rec := queueRecord(&q)
		if old := f.records[q.Name]; old != nil {
			carry(rec, old)
			carry(rec.GetQueue(), old.GetQueue())
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
	}
	return q, ares.Errorf(ares.Exhausted, "the queues of tenant %s change too fast: try again", q.Tenant)
}

// DeleteQueue removes a queue that is still at revision and has none under it.
// A submission that relied on it fails its comparison.
func (s *Store) DeleteQueue(ctx context.Context, tenant, name string, revision int64) error {
	for range maxTries {
		f, err := s.forest(ctx, tenant)
		if err != nil {
			return err
		}
		there := f.queues[name]
		switch {
		case there == nil:
			return NoQueue(tenant, name)
		case there.Revision != revision:
			return changedQueue(tenant, name)
		}
		if child := f.firstUnder(name); child != "" {
			return ares.Errorf(ares.Conflict, "queue %s has queues under it, such as %s: delete them first", ares.QueueID(tenant, name), child)
		}
		resp, err := s.txn(ctx, "delete queue",
			append(f.unchanged(""), clientv3.Compare(clientv3.ModRevision(queueKey(tenant, name)), "=", revision)),
			[]clientv3.Op{clientv3.OpDelete(queueKey(tenant, name))}, nil)
		if err != nil || resp.Succeeded {
			return err
		}
	}
	return ares.Errorf(ares.Exhausted, "the queues of tenant %s change too fast: try again", tenant)
}

// Queue reads one queue; the answer is linearizable.
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

// DropQueues removes the queues of a tenant that is gone, what they used, and who
// had rights in it.
func (s *Store) DropQueues(ctx context.Context, tenant string) error {
	_, err := s.txn(ctx, "drop queues",
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(tenantKey(tenant)), "=", 0)},
		append(dropQueues(tenant), dropRights(tenant)...), nil)
	return err
}

func dropQueues(tenant string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(queuesOf(tenant), clientv3.WithPrefix()),
		clientv3.OpDelete(usageOf(tenant), clientv3.WithPrefix()),
	}
}

// forest reads the queues of a tenant; the answer is linearizable.
func (s *Store) forest(ctx context.Context, tenant string) (*forest, error) {
	list, revision, err := s.records(ctx, queuesOf(tenant))
	if err != nil {
		return nil, err
	}
	f := &forest{tenant: tenant, revision: revision, queues: map[string]*ares.Queue{}, records: map[string]*storepb.Record{}}
	for _, r := range list {
		f.queues[r.name], f.records[r.name] = queueOf(r.GetQueue(), tenant, r.name, r.revision), r.Record
	}
	return f, nil
}

// unchanged compares that no queue of the tenant was written since, and that
// the one that is relied on was not deleted.
func (f *forest) unchanged(parent string) []clientv3.Cmp {
	room := queuesOf(f.tenant)
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(room), "<", f.revision+1).WithPrefix()}
	if f.queues[parent] != nil {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(queueKey(f.tenant, parent)), ">", 0))
	}
	return cmps
}

// admits says whether the queues are a tree, and not too large a one, with q.
func (f *forest) admits(q *ares.Queue) error {
	there := f.queues[q.Name]
	switch {
	case q.Revision == 0 && there != nil:
		return ares.Errorf(ares.Conflict, "queue %s exists already: choose another name, or change it with PATCH", q.ID()).At("name")
	case q.Revision != 0 && there == nil:
		return NoQueue(q.Tenant, q.Name)
	case q.Revision != 0 && there.Revision != q.Revision:
		return changedQueue(q.Tenant, q.Name)
	case there == nil && len(f.queues) >= ares.MaxQueues:
		return ares.Errorf(ares.Refused, "tenant %s has %d queues, the most there may be: delete some", q.Tenant, len(f.queues))
	}
	above := 1 // levels from q up, q included
	for up := q.Parent; up != "" && above <= ares.MaxQueueDepth; above++ {
		if up == q.Name {
			return ares.Errorf(ares.Invalid, "parent: queue %s is under %s already: they cannot be in a ring", ares.QueueID(q.Tenant, q.Parent), q.Name).At("parent")
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
		return ares.Errorf(ares.Invalid, "parent: the queues would be %d levels deep, at most %d are kept", n, ares.MaxQueueDepth).At("parent")
	}
	return nil
}

// below counts the levels under a queue.
func (f *forest) below(name string) int {
	under := map[string][]string{}
	for _, q := range f.queues { // order-free: only the deepest counts
		if q.Name != name { // its own parent is about to change
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

func (f *forest) firstUnder(name string) string {
	first := ""
	for _, q := range f.queues { // order-free: the least name
		if q.Parent == name && (first == "" || q.Name < first) {
			first = q.Name
		}
	}
	return first
}

// sameQueue says whether two queues would be stored alike.
func sameQueue(a, b *ares.Queue) bool {
	x, errX := marshal(queueRecord(a))
	y, errY := marshal(queueRecord(b))
	return errX == nil && errY == nil && x == y
}

// NoQueue is the answer for a queue that is not there, and for one that whoever
// asks may not know of. It is about a request's name, unless told otherwise.
func NoQueue(tenant, name string) *ares.Error {
	return ares.Errorf(ares.NotFound, "there is no queue %s of tenant %s: see `ares queue list`, or create it first (`ares queue create %s/%s`)", name, tenant, tenant, name).At("name")
}

func changedQueue(tenant, name string) error {
	return ares.Errorf(ares.Conflict, "queue %s was changed by somebody else: read it again and repeat", ares.QueueID(tenant, name))
}
