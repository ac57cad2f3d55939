package engine

import "testing"

// What people read of a cost is what it strands, without what it adds for
// flocks that are unsure or warm.
func TestStrandingLeavesOutWhatOnlyOrders(t *testing.T) {
	for _, milli := range []int64{-8000, -25, 0, 25, 1200, 64_000} {
		bare := milli*1000*1024 + 7
		for _, more := range []int64{0, unsureCost, warmCost, warmCost + unsureCost} {
			if got := stranding(bare + more); got != int(milli) {
				t.Errorf("%d thousandths with %d more read as %d", milli, more, got)
			}
		}
	}
}
