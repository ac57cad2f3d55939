package engine

import (
	"testing"

	"github.com/ares-scheduler/ares/engine/cluster/score"
)

// What people read of a cost is what it strands, without what it adds for
// devices that are warm, and for ties.
func TestStrandingLeavesOutWhatOnlyOrders(t *testing.T) {
	for _, milli := range []int64{-8000, -25, 0, 25, 1200, 64_000} {
		bare := milli*score.MixTotal<<score.TieBits + 7
		for _, more := range []int64{0, score.WarmCost} {
			if got := score.StrandedMilli(bare + more); got != int(milli) {
				t.Errorf("%d thousandths with %d more read as %d", milli, more, got)
			}
		}
	}
}
