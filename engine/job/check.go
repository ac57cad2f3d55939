package job

import (
	"fmt"
	"time"

	"github.com/ares-scheduler/ares/engine/queue"
)

// CheckOrder returns an error when the shares, quotas or budgets that are kept up to
// date differ from those of a tree that is built anew.
func (j *Table) CheckOrder() error {
	fresh := queue.New[*Entry](j.Queues.Config())
	for _, name := range j.Queues.Models() {
		fresh.ModelIndex(name)
	}
	fresh.SetCapacity(j.cluster.Capacity)
	for id, t := range j.Tenants { // order-free: each by itself
		fresh.SetTenant(id, t.Record)
		for name, u := range t.Archived { // order-free: as above
			fresh.Leaf(id, name).SetArchived(u)
		}
	}
	for q := range j.Queues.QueueRecords() {
		fresh.SetQueue(q)
	}
	var last time.Time
	for _, e := range j.Entries() {
		if e.Job == nil || e.Run == nil {
			continue
		}
		h, leaf := j.holdingsOf(e), fresh.Leaf(e.Job.Tenant, e.Job.Queue)
		if h.isConcurrent {
			leaf.Charge(h.Allocation, 1)
		}
		all, at := j.Tenant(e.Job.Tenant).Active, int(e.activeAt)
		if active := at > 0 && at <= len(all) && all[at-1] == e; active != h.isConcurrent {
			return fmt.Errorf("job %s counts as running: %t, and its tenant's list of active jobs says %t", e.ID, h.isConcurrent, active)
		}
		for _, p := range h.Past {
			if last = LaterOf(LaterOf(last, p.From), p.To); p.To.IsZero() {
				leaf.AddRunning(p.Use, p.From, 1)
			} else {
				leaf.AddEnded(p.Use, p.From, p.To, 1)
			}
		}
	}
	if err := j.checkMonths(); err != nil {
		return err
	}
	return j.compareAccounts(fresh, last.Add(time.Hour))
}

// checkMonths returns an error when the monthly use of a tenant differs from counting
// its ended attempts anew.
func (j *Table) checkMonths() error {
	counted := map[string]*Tenant{}
	for _, e := range j.Entries() {
		if e.Job == nil || e.Run == nil {
			continue
		}
		t := counted[e.Job.Tenant]
		if t == nil {
			t = &Tenant{monthlyUse: map[string]int64{}}
			counted[e.Job.Tenant] = t
		}
		h := j.holdingsOf(e)
		for i := range h.Past {
			if !h.Past[i].To.IsZero() {
				t.addMonthlyUse(&h.Past[i], 1)
			}
		}
	}
	for id, t := range j.Tenants { // order-free: any broken law will do
		want := map[string]int64{}
		if c := counted[id]; c != nil {
			want = c.monthlyUse
		}
		if len(want) != len(t.monthlyUse) {
			return fmt.Errorf("tenant %s used something in %d months, its account has %d", id, len(want), len(t.monthlyUse))
		}
		for month, n := range want { // order-free: any broken law will do
			if t.monthlyUse[month] != n {
				return fmt.Errorf("tenant %s used %d in %s, its account says %d", id, n, month, t.monthlyUse[month])
			}
		}
	}
	return nil
}

// compareAccounts returns an error when shares or headrooms of the queues differ from
// those of a fresh tree.
func (j *Table) compareAccounts(fresh *queueTree, at time.Time) error {
	known := map[[2]string]queue.Share{}
	for _, f := range fresh.Shares(at) {
		known[[2]string{f.Tenant, f.Queue}] = f
	}
	for _, have := range j.Queues.Shares(at) {
		want := known[[2]string{have.Tenant, have.Queue}] // the zero value, when no record or job names the queue any more
		if have.Allocated != want.Allocated || have.PastUse != want.PastUse || have.DominantShare != want.DominantShare {
			return fmt.Errorf("%s/%s holds %+v and held %+v, its account says %+v and %+v", have.Tenant, have.Queue, want.Allocated, want.PastUse, have.Allocated, have.PastUse)
		}
	}
	for _, sh := range j.Shapes.ByKey { // order-free: any broken law will do
		leaf := fresh.Leaf(sh.Leaf.Tenant(), sh.Leaf.Name())
		for _, m := range j.cluster.ModelsPresent {
			want, _ := leaf.Headroom(m)
			if have, _ := sh.Leaf.Headroom(m); have != want {
				return fmt.Errorf("quotas leave %s/%s %d/1000 of model %d, its account says %d", leaf.Tenant(), leaf.Name(), want, m, have)
			}
		}
	}
	return nil
}

// Check returns an error when the entry is not in the queue it belongs to, or when an
// attempt lacks ranks or has too many.
func (e *Entry) Check() error {
	if e.Queue != e.QueueFor() || e.changed {
		return fmt.Errorf("job %s is in queue %d and belongs to %d", e.ID, e.Queue, e.QueueFor())
	}
	if e.Run == nil || e.Job == nil {
		return nil
	}
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		if a.Free() && e.Phase().Waiting() {
			continue // a what-if that changes the members of a waiting job leaves its past attempts as they were
		}
		if n, most := len(a.Seats), max(e.Job.Members, 1); n > most || n < min(max(e.Job.MinMembers, 1), most) {
			return fmt.Errorf("attempt %d of job %s has %d seats for %d to %d members", a.Number, e.ID, n, max(e.Job.MinMembers, 1), most)
		}
		for k := range a.Seats {
			if a.Seats[k].Rank != k {
				return fmt.Errorf("attempt %d of job %s has no rank %d", a.Number, e.ID, k)
			}
		}
	}
	return nil
}
