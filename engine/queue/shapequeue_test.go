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

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// compareAged returns a comparison function for the order of a leaf queue with ageing.
func compareAged(step time.Duration) func(a, b *Item[int]) int {
	level := func(it *Item[int]) int64 {
		return int64(it.Priority) - it.Accepted.Unix()/int64(step/time.Second)
	}
	critical := func(it *Item[int]) int {
		if ares.ClassOf(it.Priority) == ares.Critical {
			return 0
		}
		return 1
	}
	return func(a, b *Item[int]) int {
		return cmp.Or(
			cmp.Compare(critical(a), critical(b)), cmp.Compare(level(b), level(a)),
			cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID),
		)
	}
}

// allOffers runs a round in which every offered item is allocated. It returns the offered items.
func allOffers(t *Tree[int], now time.Time) []*Item[int] {
	var out []*Item[int]
	p := t.BeginRound(now)
	for {
		it, ok := p.Next()
		if !ok {
			break
		}
		out = append(out, it)
		p.Allocate(Allocation{})
	}
	p.End()
	return out
}

func names(items []*Item[int]) []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.ID
	}
	return out
}

// TestLeafOrder pushes and removes random items, and compares the queue with a sorted list. Many of the items have
// equal times or revisions.
func TestLeafOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		step := time.Duration(rapid.SampledFrom([]int{1, 10, 600}).Draw(t, "step")) * time.Second
		tree := New[int](Config{AgeingStep: step})
		leaf := tree.Leaf("a", "")
		var model []*Item[int]
		next := 0
		shapes := rapid.IntRange(1, 4).Draw(t, "shapes")
		spread := rapid.SampledFrom([]int{0, 1, 50, 100_000}).Draw(t, "spread")
		newest := rapid.SampledFrom([]int64{3, 1000, 1 << 40}).Draw(t, "revisions")
		push := func(n int) {
			for range n {
				it := &Item[int]{
					Owner: next, ID: fmt.Sprintf("%x-%d", rapid.IntRange(0, 15).Draw(t, "id"), next),
					Priority: rapid.SampledFrom([]int{0, 500, 501, 1999, 2000, 2001, ares.MaxPriority}).Draw(t, "priority"),
					Accepted: dawn.Add(time.Duration(rapid.IntRange(0, spread).Draw(t, "accepted")) * time.Second),
					Revision: rapid.Int64Range(0, newest).Draw(t, "revision"),
					Shape:    rapid.IntRange(1, shapes).Draw(t, "shape"),
				}
				next++
				leaf.Push(it)
				model = append(model, it)
			}
		}
		check := func() {
			slices.SortFunc(model, compareAged(step))
			if got := allOffers(tree, dawn); !slices.Equal(got, model) {
				t.Fatalf("offered %v, want %v", names(got), names(model))
			}
			if items, _ := tree.CountWaiting(); items != len(model) {
				t.Fatalf("%d wait, want %d", items, len(model))
			}
			for _, i := range []int{0, len(model) / 2, len(model) - 1} {
				if len(model) == 0 {
					break
				}
				if rank, of := tree.Position(model[i]); rank != i+1 || of != len(model) {
					t.Fatalf("%s is %d of %d, want %d of %d", model[i].ID, rank, of, i+1, len(model))
				}
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			push(rapid.IntRange(0, 3*maxChunk).Draw(t, "pushed"))
			if rapid.Bool().Draw(t, "look") {
				check()
			}
			for range rapid.IntRange(0, len(model)).Draw(t, "removed") {
				i := 0
				if rapid.IntRange(0, 3).Draw(t, "middle") == 0 {
					i = rapid.IntRange(0, len(model)-1).Draw(t, "which")
				}
				tree.Remove(model[i])
				model = slices.Delete(model, i, i+1)
			}
			check()
		}
	})
}

// TestEmptyLeafQueue removes all items of a leaf queue and checks that its shape queues are removed too.
func TestEmptyLeafQueue(t *testing.T) {
	t.Parallel()
	tree := New[int](DefaultConfig())
	leaf := tree.Leaf("a", "")
	items := drawItems(5000, 20)
	for _, it := range items {
		leaf.Push(it)
	}
	for _, it := range items {
		tree.Remove(it)
		tree.Remove(it) // removing it a second time does nothing
	}
	if n, shapeQueues := tree.CountWaiting(); n != 0 || shapeQueues != 0 || len(leaf.byShape) != 0 || tree.root.waiting != 0 {
		t.Errorf("left: %d items, %d shape queues, %d shapes", n, shapeQueues, len(leaf.byShape))
	}
}
