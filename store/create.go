package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Creation asks to accept one job, if its tenant is still as it was read and
// the queue it names is there.
type Creation struct {
	Job            *ares.Job
	TenantRevision int64
	// After holds the revisions of the live jobs it is to come after: it is
	// accepted only while they are there, and they are kept for it.
	After map[ares.JobID]int64
}

// Created answers a Creation.
type Created struct {
	ID        ares.JobID
	Duplicate bool       // the same request had been accepted before
	Phase     ares.Phase // of a duplicate that was archived, else ""
	Stale     bool       // refused because the tenant, its queue or a job before it changed: read them and repeat
	Err       error
}

// Create accepts jobs. The answer for each is given after its commit, or when
// ctx ends; jobs of concurrent callers share transactions.
func (s *Store) Create(ctx context.Context, asks []Creation) []Created {
	out := make([]Created, len(asks))
	items, index := make([]*creation, 0, len(asks)), make([]int, 0, len(asks))
	for i, a := range asks {
		value, err := marshal(jobRecord(a.Job))
		if err == nil && a.Job.IsArray() && len(value) > ares.MaxArraySpecBytes {
			err = ares.Errorf(ares.TooLarge, "the array is %d bytes, at most %d are stored, because each element keeps a copy: put large values into files the elements read", len(value), ares.MaxArraySpecBytes)
		} else if err == nil && len(value) > ares.MaxSpecBytes {
			err = ares.Errorf(ares.TooLarge, "the job is %d bytes, at most %d are stored: put large values into files the job reads", len(value), ares.MaxSpecBytes)
		}
		out[i].ID = a.Job.ID
		if err != nil {
			out[i].Err = err
			continue
		}
		items = append(items, &creation{
			id: a.Job.ID, digest: a.Job.Digest, value: value,
			tenant: tenantKey(a.Job.Tenant), tenantRevision: a.TenantRevision, queue: queueNeeded(a.Job), after: a.After, out: Created{ID: a.Job.ID},
		})
		index = append(index, i)
	}
	if len(items) > 0 {
		for k, answer := range s.creates.do(ctx, items) {
			out[index[k]] = answer
		}
	}
	return out
}

// creation is one job on its way into a shared transaction.
type creation struct {
	id             ares.JobID
	digest         ares.Digest
	value          string
	tenant         string
	tenantRevision int64
	queue          string // the key that must be there, "" for none
	after          map[ares.JobID]int64
	out            Created // written by the flight that carries it
	settled        bool    // out is final; guarded by the batcher
}

// queueNeeded is the key of the queue a job names. The default one needs none.
func queueNeeded(j *ares.Job) string {
	if j.Queue == "" || j.Queue == ares.DefaultQueue {
		return ""
	}
	return queueKey(j.Tenant, j.Queue)
}

func isThere(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

// flushCreates writes a batch: first flat, which is the fast and usual case;
// when a comparison fails, again with each job deciding for itself.
func (s *Store) flushCreates(ctx context.Context, batch []*creation) {
	for len(batch) > 0 {
		unique, repeats := firsts(batch)
		for _, group := range apart(unique) {
			if s.createAll(ctx, group) {
				continue
			}
			if len(group[0].after) == 0 {
				s.createEach(ctx, group)
				continue
			}
			for i := range group { // two of them may write one key
				s.createEach(ctx, group[i:i+1])
			}
		}
		// A repetition has its first's answer; another body asks for itself,
		// now that the first is settled.
		batch = nil
		for _, r := range repeats {
			if r.first.digest == r.again.digest {
				r.again.out = r.first.out
				r.again.out.Duplicate = r.first.out.Err == nil
			} else {
				batch = append(batch, r.again)
			}
		}
	}
}

// createAll writes all jobs or, with a clean refusal, none and says so.
func (s *Store) createAll(ctx context.Context, batch []*creation) bool {
	cmps := make([]clientv3.Cmp, 0, len(batch)+4)
	puts := make([]clientv3.Op, 0, len(batch))
	tenants, queues, marked := map[string]int64{}, map[string]bool{}, map[string]bool{}
	for _, c := range batch {
		if c.queue != "" && !queues[c.queue] {
			queues[c.queue] = true
			cmps = append(cmps, isThere(c.queue))
		}
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), "=", 0))
		puts = append(puts, clientv3.OpPut(jobKey(c.id), c.value))
		seen, known := tenants[c.tenant]
		switch {
		case !known:
			tenants[c.tenant] = c.tenantRevision
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(c.tenant), "=", c.tenantRevision))
		case seen != c.tenantRevision:
			return false // they saw different tenants: at least one of them is stale
		}
		cs, ps := c.awaits()
		cmps = append(cmps, cs...)
		for _, p := range ps { // several may come after one job
			if key := string(p.KeyBytes()); !marked[key] {
				marked[key] = true
				puts = append(puts, p)
			}
		}
	}
	resp, err := s.txn(ctx, "create jobs", cmps, puts, nil)
	if err != nil {
		for _, c := range batch {
			c.out.Err = err
		}
		return true // the outcome is unknown: repeating it is for the caller
	}
	return resp.Succeeded
}

// createEach lets every job of a batch succeed or fail by itself, still in
// one transaction: a child for each.
func (s *Store) createEach(ctx context.Context, batch []*creation) {
	children := make([]clientv3.Op, len(batch))
	for i, c := range batch {
		cs, ps := c.awaits()
		cmps := append([]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), "=", 0),
			clientv3.Compare(clientv3.ModRevision(c.tenant), "=", c.tenantRevision),
		}, cs...)
		if c.queue != "" {
			cmps = append(cmps, isThere(c.queue))
		}
		children[i] = clientv3.OpTxn(
			cmps,
			append([]clientv3.Op{clientv3.OpPut(jobKey(c.id), c.value)}, ps...),
			[]clientv3.Op{clientv3.OpGet(jobKey(c.id))},
		)
	}
	resp, err := s.txn(ctx, "create jobs one by one", nil, children, nil)
	for i, c := range batch {
		if err != nil {
			c.out.Err = err
			continue
		}
		child := resp.Responses[i].GetResponseTxn()
		if child.Succeeded {
			continue
		}
		found := child.Responses[0].GetResponseRange()
		if len(found.Kvs) == 0 {
			c.out.Stale = true
			c.out.Err = ares.Errorf(ares.Conflict, "the tenant, its queue or a job to come before this one was changed while it was submitted: submit again")
			continue
		}
		c.compare(found.Kvs[0].Value)
	}
}

// compare answers a request whose job exists already: the same body is a
// duplicate, another one a conflict.
func (c *creation) compare(stored []byte) {
	rec, err := unmarshal(jobKey(c.id), stored)
	if err != nil {
		c.out.Err = err
		return
	}
	digest := rec.GetJob().GetDigest()
	if t := rec.GetTombstone(); t != nil {
		digest = t.Digest
		c.out.Phase = ares.Phase(t.Phase)
	}
	if string(digest) != string(c.digest[:]) {
		c.out.Err = conflictingBody(c.id)
		return
	}
	c.out.Duplicate = true
}

func conflictingBody(id ares.JobID) error {
	return ares.Errorf(ares.Conflict, "this request_id was used before for %s with another body: use a new request_id for a new job", id).At("request_id")
}

// repeat is a job asked for twice in one batch: etcd refuses to write a key
// twice in one transaction, so the second waits for the first's answer.
type repeat struct{ first, again *creation }

func firsts(batch []*creation) (unique []*creation, repeats []repeat) {
	seen := make(map[ares.JobID]*creation, len(batch))
	unique = batch[:0:0]
	for _, c := range batch {
		if first, ok := seen[c.id]; ok {
			repeats = append(repeats, repeat{first, c})
			continue
		}
		seen[c.id] = c
		unique = append(unique, c)
	}
	return unique, repeats
}
