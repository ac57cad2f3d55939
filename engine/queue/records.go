package queue

import (
	"cmp"
	"iter"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Records yields the record of every queue that has one, by tenant and name.
func (t *Tree[J]) Records() iter.Seq[*ares.Queue] {
	var all []*ares.Queue
	for _, of := range t.tenants { // order-free: sorted right below
		for _, q := range of.queues { // order-free: as above
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
