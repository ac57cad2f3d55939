package queue

import (
	"cmp"
	"iter"
	"slices"

	"github.com/ares-scheduler/ares"
)

// QueueRecords yields the record of every declared queue, by tenant and name.
func (t *Tree[J]) QueueRecords() iter.Seq[*ares.Queue] {
	var all []*ares.Queue
	for _, entry := range t.tenants { // order-free: sorted right below
		for _, q := range entry.queues { // order-free: as above
			if q.record != nil {
				all = append(all, q.record)
			}
		}
	}
	slices.SortFunc(all, func(a, b *ares.Queue) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name))
	})
	return slices.Values(all)
}

// QueueRecord returns the record of a queue, or nil when it is not declared.
func (t *Tree[J]) QueueRecord(tenant, name string) *ares.Queue {
	if entry := t.tenants[tenant]; entry != nil && entry.queues[name] != nil {
		return entry.queues[name].record
	}
	return nil
}
