package service

import "sync"

// mergedRanks counts the ranks that readers of all ranks read now, by tenant. The zero value is ready for use.
type mergedRanks struct {
	mu       sync.Mutex
	all      int
	byTenant map[string]int
}

// The method `take` counts the ranks of another reader. The result is false if they would be too many: all readers together
// read allMergedRanks at most, and a tenant gets more ranks only while more are free than it already has. So no tenant
// leaves the others without any.
func (m *mergedRanks) take(tenant string, ranks int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if free := allMergedRanks - m.all; ranks > free || m.byTenant[tenant] >= free {
		return false
	}
	if m.byTenant == nil {
		m.byTenant = map[string]int{}
	}
	m.all += ranks
	m.byTenant[tenant] += ranks
	return true
}

// The method `giveBack` ends the count of a reader's ranks.
func (m *mergedRanks) giveBack(tenant string, ranks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= ranks
	if m.byTenant[tenant] -= ranks; m.byTenant[tenant] == 0 {
		delete(m.byTenant, tenant)
	}
}
