package engine

import (
	"fmt"
	"time"

	"github.com/ares-scheduler/ares/engine/queue"
)

// checkOrder wants the shares, quotas and budgets that are kept up to date to be
// those of a tree that is told everything anew.
func (j *jobTable) checkOrder() error {
	fresh := queue.New[*entry](j.queues.Config())
	for _, name := range j.queues.Models() {
		fresh.ModelIndex(name)
	}
	fresh.SetCapacity(j.cluster.Capacity)
	for id, t := range j.tenants { // order-free: each by itself
		fresh.SetTenant(id, t.record)
		for name, u := range t.archived { // order-free: as above
			fresh.Leaf(id, name).SetArchived(u)
		}
	}
	for q := range j.queues.QueueRecords() {
		fresh.SetQueue(q)
	}
	var last time.Time
	for _, e := range j.entries() {
		if e.job == nil || e.run == nil {
			continue
		}
		h, leaf := j.holdingsOf(e), fresh.Leaf(e.job.Tenant, e.job.Queue)
		if h.counts {
			leaf.Charge(h.grant, 1)
		}
		all, at := j.tenant(e.job.Tenant).active, int(e.activeAt)
		if active := at > 0 && at <= len(all) && all[at-1] == e; active != h.counts {
			return fmt.Errorf("job %s holds something: %t, and its tenant's list says %t", e.id, h.counts, active)
		}
		for _, p := range h.past {
			if last = laterOf(laterOf(last, p.from), p.to); p.to.IsZero() {
				leaf.AddRunning(p.use, p.from, 1)
			} else {
				leaf.AddEnded(p.use, p.from, p.to, 1)
			}
		}
	}
	if err := j.checkMonths(); err != nil {
		return err
	}
	return j.compareOrder(fresh, last.Add(time.Hour))
}

// checkMonths wants what ended attempts used by month to be what counting anew
// finds.
func (j *jobTable) checkMonths() error {
	counted := map[string]*tenant{}
	for _, e := range j.entries() {
		if e.job == nil || e.run == nil {
			continue
		}
		t := counted[e.job.Tenant]
		if t == nil {
			t = &tenant{monthlyUse: map[string]int64{}}
			counted[e.job.Tenant] = t
		}
		h := j.holdingsOf(e)
		for i := range h.past {
			if !h.past[i].to.IsZero() {
				t.addMonthlyUse(&h.past[i], 1)
			}
		}
	}
	for id, t := range j.tenants { // order-free: any broken law will do
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

// compareOrder holds the order's accounts against those of a fresh tree.
func (j *jobTable) compareOrder(fresh *queueTree, at time.Time) error {
	known := map[[2]string]queue.Share{}
	for _, f := range fresh.Shares(at) {
		known[[2]string{f.Tenant, f.Queue}] = f
	}
	for _, have := range j.queues.Shares(at) {
		want := known[[2]string{have.Tenant, have.Queue}] // nothing, if nobody speaks of it any more
		if have.Allocated != want.Allocated || have.PastUse != want.PastUse || have.DominantShare != want.DominantShare {
			return fmt.Errorf("%s/%s holds %+v and held %+v, its account says %+v and %+v", have.Tenant, have.Queue, want.Allocated, want.PastUse, have.Allocated, have.PastUse)
		}
	}
	for _, sh := range j.shapes.byKey { // order-free: any broken law will do
		leaf := fresh.Leaf(sh.leaf.Tenant(), sh.leaf.Name())
		for _, m := range j.cluster.Models {
			want, _ := leaf.Headroom(m)
			if have, _ := sh.leaf.Headroom(m); have != want {
				return fmt.Errorf("quotas leave %s/%s %d/1000 of model %d, its account says %d", leaf.Tenant(), leaf.Name(), want, m, have)
			}
		}
	}
	return nil
}
