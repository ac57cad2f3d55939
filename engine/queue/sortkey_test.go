package queue

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// drawSortKeyTree returns a tree that is ordered by sort keys, and the items of its
// only leaf queue.
func drawSortKeyTree(t *rapid.T) (*Tree[int], []*Item[int]) {
	tree := New[int](Config{AgeingStep: time.Second, HalfLife: time.Hour, BySortKey: true})
	tree.SetCapacity(Resources{GPU: 8000})
	var items []*Item[int]
	for i := range rapid.IntRange(1, 300).Draw(t, "items") {
		it := &Item[int]{
			Owner: i, ID: fmt.Sprintf("j%03d", i), Shape: rapid.IntRange(0, 4).Draw(t, "shape"),
			Priority: rapid.SampledFrom([]int{0, 100, 500, 501, 1000, 2000}).Draw(t, "priority"),
			Accepted: dawn.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "accepted")) * time.Second),
			Revision: rapid.Int64Range(1, 20).Draw(t, "revision"),
			SortKey:  rapid.SampledFrom([]uint64{0, 1, 2, 1 << 40, MaxSortKey, 1<<64 - 1}).Draw(t, "rank"),
		}
		items = append(items, it)
		tree.Leaf("a", "").Push(it)
	}
	return tree, items
}

// compareSortKeys implements the order of a leaf queue by sort keys in a single comparison function.
func compareSortKeys(a, b *Item[int]) int {
	return cmp.Or(
		cmp.Compare(ares.ClassOf(b.Priority).Rank(), ares.ClassOf(a.Priority).Rank()), cmp.Compare(min(a.SortKey, MaxSortKey), min(b.SortKey, MaxSortKey)),
		cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID),
	)
}

// TestSortKeys checks that a round offers items in the order of submitted class, sort
// key, revision and ID. Position must return positions in the same order.
func TestSortKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree, items := drawSortKeyTree(t)
		for range rapid.IntRange(0, len(items)-1).Draw(t, "gone") { // remove some items from any position
			i := rapid.IntRange(0, len(items)-1).Draw(t, "which")
			tree.Remove(items[i])
			items = slices.Delete(items, i, i+1)
		}
		slices.SortFunc(items, compareSortKeys)
		now := dawn.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(t, "now")) * time.Second)
		round := tree.BeginRound(now)
		for i, want := range items {
			got, ok := round.Next()
			if !ok || got != want {
				t.Fatalf("offer %d is %v, want %v", i, got, want)
			}
			round.Skip()
		}
		if it, ok := round.Next(); ok {
			t.Fatalf("%v is offered too", it)
		}
		round.End()
		for i, it := range items {
			if at, of := tree.Position(it); at != i+1 || of != len(items) {
				t.Fatalf("%v is %d of %d, want %d", it, at, of, i+1)
			}
			if own, _, _ := tree.CountAhead(it, now); own != i {
				t.Fatalf("%d are ahead of %v, want %d", own, it, i)
			}
		}
	})
}

// TestBlockQueue checks a round in which an item blocks its leaf queue. The round must offer no other item of that
// queue, but must continue with other queues.
func TestBlockQueue(t *testing.T) {
	t.Parallel()
	tree := New[int](Config{BySortKey: true})
	tree.SetCapacity(Resources{GPU: 8000})
	for i, queue := range []string{"p", "p", "p", "q", "q"} {
		tree.Leaf("a", queue).Push(&Item[int]{Owner: i, ID: fmt.Sprint(i), Shape: i % 2, Priority: 500, SortKey: uint64(i)})
	}
	for range 2 { // the first round must have no lasting effect
		var got []int
		round := tree.BeginRound(dawn)
		for {
			it, ok := round.Next()
			if !ok {
				break
			}
			got = append(got, it.Owner)
			if it.Owner == 1 || it.Owner == 3 {
				round.BlockQueue()
			} else {
				round.Skip()
			}
		}
		round.End()
		if !slices.Equal(got, []int{0, 1, 3}) {
			t.Errorf("offered %v", got)
		}
	}
}
