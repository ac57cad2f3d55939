package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
)

// Creation is a request to accept one job. The request succeeds only if the queue exists and
// the tenant has not changed since it was read.
type Creation struct {
	Job            *ares.Job
	TenantRevision int64
	// The map After contains each live job on which this job depends, with the revision of that live job. This job is
	// accepted only while its dependencies exist. Once this job is accepted, the jobs that it depends on are not
	// archived.
	After map[ares.JobID]int64
}

// Created is the answer to a Creation.
type Created struct {
	ID        ares.JobID
	Duplicate bool       // the same request was accepted before
	Phase     ares.Phase // phase of a duplicate whose job was archived, otherwise ""
	Stale     bool       // rejected because the tenant, its queue or a dependency changed; read them and repeat
	Err       error
}

// Create accepts new jobs. The answer for each job arrives after the job is committed, or
// when ctx ends. Jobs of concurrent callers share transactions.
func (s *Store) Create(ctx context.Context, asks []Creation) []Created {
	out := make([]Created, len(asks))
	items, index := make([]*creation, 0, len(asks)), make([]int, 0, len(asks))
	for i, a := range asks {
		value, err := marshal(jobRecord(a.Job))
		if err == nil && a.Job.IsArray() && len(value) > ares.MaxArraySpecBytes {
			err = ares.Errorf(ares.TooLarge, "the array has %d bytes, but the limit for arrays is %d bytes: put large values into files that the elements read", len(value), ares.MaxArraySpecBytes)
		} else if err == nil && len(value) > ares.MaxSpecBytes {
			err = ares.Errorf(ares.TooLarge, "the job has %d bytes, but the limit is %d bytes: put large values into files that the job reads", len(value), ares.MaxSpecBytes)
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

// A `creation` is one job that waits for a shared transaction.
type creation struct {
	id             ares.JobID
	digest         ares.Digest
	value          string
	tenant         string
	tenantRevision int64
	queue          string // key of the queue that must exist, "" if none must
	after          map[ares.JobID]int64
	out            Created // written by the flush loop that has taken this job
	settled        bool    // out is final; guarded by the batcher
}

// queueNeeded returns the key of the queue that a job names. The function returns "" for
// the default queue, which need not exist.
func queueNeeded(j *ares.Job) string {
	if j.Queue == "" || j.Queue == ares.DefaultQueue {
		return ""
	}
	return queueKey(j.Tenant, j.Queue)
}

func keyExists(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), ">", 0)
}

// flushCreates writes a batch. It first tries one flat transaction, which is fast and usually succeeds. If a comparison
// in the flat transaction fails, flushCreates uses a second transaction. There, each job succeeds or fails by itself.
func (s *Store) flushCreates(ctx context.Context, batch []*creation) {
	for len(batch) > 0 {
		unique, repeats := splitRepeats(batch)
		for _, group := range splitByDependencies(unique) {
			if cmps, puts, ok := flatTxn(group); ok {
				resp, err := s.txn(ctx, "create jobs", cmps, puts, nil)
				if err == nil && resp.Succeeded {
					continue
				}
				if err != nil { // the outcome is unknown: the caller repeats the request
					for _, c := range group {
						c.out.Err = err
					}
					continue
				}
			}
			if len(group[0].after) == 0 {
				s.createEach(ctx, group)
				continue
			}
			for i := range group { // two jobs may write the same key
				s.createEach(ctx, group[i:i+1])
			}
		}
		// A duplicate gets the same answer as the first request. A request with the same ID but a
		// different body is tried again after the first request is answered.
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

// flatTxn returns a flat transaction that writes either all jobs or none. The transaction requires that no job exists
// yet and that every queue exists. Every tenant and dependency must be unchanged. If the transaction cannot succeed,
// the last result is false.
func flatTxn(batch []*creation) (cmps []clientv3.Cmp, puts []clientv3.Op, ok bool) {
	cmps = make([]clientv3.Cmp, 0, len(batch)+4)
	puts = make([]clientv3.Op, 0, len(batch))
	tenants, queues, marked := map[string]int64{}, map[string]bool{}, map[string]bool{}
	for _, c := range batch {
		if c.queue != "" && !queues[c.queue] {
			queues[c.queue] = true
			cmps = append(cmps, keyExists(c.queue))
		}
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), "=", 0))
		puts = append(puts, clientv3.OpPut(jobKey(c.id), c.value))
		seen, known := tenants[c.tenant]
		switch {
		case !known:
			tenants[c.tenant] = c.tenantRevision
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(c.tenant), "=", c.tenantRevision))
		case seen != c.tenantRevision:
			return nil, nil, false // the jobs were read with different revisions of the tenant, so at least one is stale
		}
		cs, ps := c.awaits()
		cmps = append(cmps, cs...)
		for _, p := range ps { // several jobs may depend on one job
			if key := string(p.KeyBytes()); !marked[key] {
				marked[key] = true
				puts = append(puts, p)
			}
		}
	}
	return cmps, puts, true
}

// createEach lets every job of a batch succeed or fail by itself. The method uses one
// transaction with a nested transaction for each job.
func (s *Store) createEach(ctx context.Context, batch []*creation) {
	children := make([]clientv3.Op, len(batch))
	for i, c := range batch {
		cs, ps := c.awaits()
		cmps := append([]clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), "=", 0),
			clientv3.Compare(clientv3.ModRevision(c.tenant), "=", c.tenantRevision),
		}, cs...)
		if c.queue != "" {
			cmps = append(cmps, keyExists(c.queue))
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
			c.out.Err = ares.Errorf(ares.Conflict, "the tenant, its queue or a job in the `after` list changed during the submission: submit again")
			continue
		}
		c.compare(found.Kvs[0].Value)
	}
}

// This method answers a request whose job already exists. A request with the same body
// as the stored job is a duplicate. A request with a different body is a conflict.
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
	return ares.Errorf(ares.Conflict, "this request_id was already used for %s, but this request has a different body: use a new request_id for a new job", id).At("request_id")
}

// A `repeat` is a job that occurs twice in one batch. In one transaction, etcd does not write a key twice. The second
// request therefore waits until the first request is answered.
type repeat struct{ first, again *creation }

func splitRepeats(batch []*creation) (unique []*creation, repeats []repeat) {
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
