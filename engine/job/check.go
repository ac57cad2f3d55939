package job

import (
	"fmt"
	"time"

	"github.com/ares-scheduler/ares/engine/queue"
)

// CheckOrder builds a new queue tree from the records, and returns an error if its shares, quotas or budgets
// differ from the incrementally updated values.
func (j *Table) CheckOrder() error {
	fresh := queue.New[*Entry](j.Queues.Config())
	for _, name := range j.Queues.Models() {
		fresh.ModelIndex(name)
	}
	fresh.SetCapacity(j.cluster.Capacity)
	for id, t := range j.Tenants { // order-free: entries are independent
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
			return fmt.Errorf("the tenant's list of active jobs is wrong for job %s: computed active=%t, listed=%t", e.ID, h.isConcurrent, active)
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
	if err := j.checkOverdue(); err != nil {
		return err
	}
	return j.compareAccounts(fresh, last.Add(time.Hour))
}

// checkMonths returns an error if the monthly usage of a tenant differs from a recount of its ended attempts.
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
	for id, t := range j.Tenants { // order-free: any violation is enough
		want := map[string]int64{}
		if c := counted[id]; c != nil {
			want = c.monthlyUse
		}
		if len(want) != len(t.monthlyUse) {
			return fmt.Errorf("tenant %s used GPUs in %d months, but its monthly usage table has %d months", id, len(want), len(t.monthlyUse))
		}
		for month, n := range want { // order-free: any violation is enough
			if t.monthlyUse[month] != n {
				return fmt.Errorf("the GPU usage of tenant %s in month %s is wrong: computed %d, recorded %d", id, month, n, t.monthlyUse[month])
			}
		}
	}
	return nil
}

// compareAccounts returns an error if the shares or the remaining quotas of the queues differ from those of a
// newly built tree.
func (j *Table) compareAccounts(fresh *queueTree, at time.Time) error {
	known := map[[2]string]queue.Share{}
	for _, f := range fresh.Shares(at) {
		known[[2]string{f.Tenant, f.Queue}] = f
	}
	for _, have := range j.Queues.Shares(at) {
		want := known[[2]string{have.Tenant, have.Queue}] // the zero value, when no record or job names the queue any more
		if have.Allocated != want.Allocated || have.PastUse != want.PastUse || have.DominantShare != want.DominantShare {
			return fmt.Errorf("the usage of queue %s/%s is wrong: computed allocation=%+v past=%+v, recorded allocation=%+v past=%+v", have.Tenant, have.Queue, want.Allocated, want.PastUse, have.Allocated, have.PastUse)
		}
	}
	for _, sh := range j.Shapes.ByKey { // order-free: any violation is enough
		leaf := fresh.Leaf(sh.Leaf.Tenant(), sh.Leaf.Name())
		for _, m := range j.cluster.ModelsPresent {
			want, _ := leaf.Headroom(m)
			if have, _ := sh.Leaf.Headroom(m); have != want {
				return fmt.Errorf("the remaining quota of queue %s/%s for device model %d is wrong: computed %d thousandths of a device, recorded %d thousandths of a device", leaf.Tenant(), leaf.Name(), m, want, have)
			}
		}
	}
	return nil
}

// CheckEntry returns an error if the entry is in the wrong queue, or if an attempt has too few
// or too many ranks.
func (j *Table) CheckEntry(e *Entry) error {
	if to := j.QueueFor(e); e.Queue != to || e.changed {
		return fmt.Errorf("job %s is in scheduler list %d, but it belongs in list %d", e.ID, e.Queue, to)
	}
	if e.Run == nil || e.Job == nil {
		return nil
	}
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		if a.Free() && e.Phase().Waiting() {
			continue // a what-if that changes the members of a waiting job does not change its past attempts
		}
		if n, most := len(a.Seats), max(e.Job.Members, 1); n > most || n < min(max(e.Job.MinMembers, 1), most) {
			return fmt.Errorf("attempt %d of job %s has %d members, but the job needs %d to %d", a.Number, e.ID, n, max(e.Job.MinMembers, 1), most)
		}
		for k := range a.Seats {
			if a.Seats[k].Rank != k {
				return fmt.Errorf("attempt %d of job %s has no member with rank %d", a.Number, e.ID, k)
			}
		}
	}
	return nil
}
