package service

import "testing"

// One tenant cannot use up all ranks that a server merges.
func TestMergedRanksOfTenants(t *testing.T) {
	t.Parallel()
	var m mergedRanks
	readers := map[string]int{}
	for _, tenant := range []string{"a", "b", "c"} {
		for m.take(tenant, maxMergedRanks) {
			if readers[tenant]++; readers[tenant] > allMergedRanks {
				t.Fatal("no limit")
			}
		}
	}
	if readers["a"] != 2 || readers["b"] != 1 || readers["c"] != 1 {
		t.Errorf("readers with %d ranks each: %v", maxMergedRanks, readers)
	}
	for tenant, n := range readers { // order-free: all are given back
		for range n {
			m.giveBack(tenant, maxMergedRanks)
		}
	}
	if m.all != 0 || len(m.byTenant) != 0 {
		t.Errorf("%d ranks are still counted: %v", m.all, m.byTenant)
	}
}
