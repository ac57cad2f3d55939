package score

import "testing"

// TestStrandedMilli checks the fragmentation that users see. It must not include the parts of the cost for warm
// devices and for breaking ties.
func TestStrandedMilli(t *testing.T) {
	for _, milli := range []int64{-8000, -25, 0, 25, 1200, 64_000} {
		bare := milli*mixTotal<<tieBits + 7
		for _, more := range []int64{0, WarmCost} {
			if got := StrandedMilli(bare + more); got != int(milli) {
				t.Errorf("%d thousandths with an added cost of %d: got %d", milli, more, got)
			}
		}
	}
}
