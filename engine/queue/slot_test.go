package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSortSlots compares sortSlots with the standard library. The prefixes differ in a few random bits, and the slots
// are either sorted by revision or not sorted.
func TestSortSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4*radixSortMin).Draw(t, "slots")
		mask := rapid.SampledFrom([]uint64{
			0, notCritical, notCritical | 0xff, 0xffff << revisionBits, notCritical | 0x1fff<<revisionBits | 0xfff, 1<<62 | 1, ^uint64(0),
		}).Draw(t, "bits that differ")
		inTurn := rapid.Bool().Draw(t, "in the order of revisions")
		same := rapid.Uint64().Draw(t, "the others")
		in := make([]slot[int], n)
		for i := range in {
			in[i] = slot[int]{
				same&^mask | rapid.Uint64().Draw(t, "key")&mask,
				&Item[int]{ID: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id"), "-", i)},
			}
		}
		if inTurn {
			slices.SortFunc(in, func(a, b slot[int]) int { return int(a.prefix&maxRevisionBits) - int(b.prefix&maxRevisionBits) })
		}
		want := slices.SortedFunc(slices.Values(in), func(a, b slot[int]) int {
			if a.before(&b) {
				return -1
			}
			return 1
		})
		sortSlots(in, make([]slot[int], n))
		if !slices.Equal(in, want) {
			t.Fatalf("%v, want %v", in, want)
		}
	})
}
