package engine

import "testing"

// What people read of a cost is what it strands, without what it adds for
// devices that are warm, and for ties.
func TestStrandingLeavesOutWhatOnlyOrders(t *testing.T) {
	for _, milli := range []int64{-8000, -25, 0, 25, 1200, 64_000} {
		bare := milli*mixTotal<<tieBits + 7
		for _, more := range []int64{0, warmCost} {
			if got := strandedMilli(bare + more); got != int(milli) {
				t.Errorf("%d thousandths with %d more read as %d", milli, more, got)
			}
		}
	}
}
