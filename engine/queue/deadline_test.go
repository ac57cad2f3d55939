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

// drawDeadline decides at random whether an item has a due time, and draws one that is not in the past.
func drawDeadline(t *rapid.T, cfg Config, it *Item[int], now time.Time) {
	it.Due, it.ClassCeiling = time.Time{}, 0
	if rapid.Bool().Draw(t, "has a deadline") {
		it.Due = now.Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "due")) * 500 * time.Millisecond)
		it.ClassCeiling, _ = cfg.ClassCeiling(it.Priority, it.Accepted, now)
	}
}

// compareWithDeadlines implements the order of a leaf queue with a single comparison function. Critical items come
// first, and the other items are ordered by level. An item with a deadline gets a special level. With this level,
// its aged priority reaches the end of its class at the due time, minus half a point. If the item's own level is
// higher, the item keeps that level.
func compareWithDeadlines(a, b *Item[int]) int {
	return cmp.Or(
		cmp.Compare(b2i(b.Priority >= 2000), b2i(a.Priority >= 2000)),
		cmp.Compare(doubleLevel(b), doubleLevel(a)),
		dueIfBoosted(a).Compare(dueIfBoosted(b)),
		cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.ID, b.ID),
	)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// doubleLevel returns twice the level of an item, for ageing steps of one second.
func doubleLevel(it *Item[int]) int64 {
	level := 2 * (int64(it.Priority) - it.Accepted.Unix())
	if it.ClassCeiling > 0 {
		level = max(level, 2*(int64(it.ClassCeiling)-it.Due.Unix())-1)
	}
	return level
}

func dueIfBoosted(it *Item[int]) time.Time {
	if it.ClassCeiling > 0 && doubleLevel(it) > 2*(int64(it.Priority)-it.Accepted.Unix()) {
		return it.Due
	}
	return time.Time{}
}

// TestDue checks the order of items with a due time against compareWithDeadlines. The order must also be correct
// after an item was removed and pushed again with another due time.
func TestDue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{AgeingStep: time.Second, HalfLife: time.Hour}
		tree := New[int](cfg)
		tree.SetCapacity(Resources{GPU: 8000})
		now := dawn.Add(time.Duration(rapid.IntRange(9000, 12_000).Draw(t, "now")) * time.Second)
		var items []*Item[int]
		for i := range rapid.IntRange(1, 300).Draw(t, "items") {
			it := &Item[int]{
				Owner: i, ID: fmt.Sprintf("j%03d", i), Shape: rapid.IntRange(0, 2).Draw(t, "shape"),
				Priority: rapid.SampledFrom([]int{0, 100, 500, 501, 1000, 2000}).Draw(t, "priority"),
				Accepted: dawn.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "accepted")) * time.Second),
				Revision: rapid.Int64Range(1, 20).Draw(t, "revision"),
			}
			drawDeadline(t, cfg, it, now)
			items = append(items, it)
			tree.Leaf("a", "").Push(it)
		}
		for range rapid.IntRange(0, 60).Draw(t, "moves") {
			it := items[rapid.IntRange(0, len(items)-1).Draw(t, "which")]
			tree.Remove(it)
			drawDeadline(t, cfg, it, now)
			tree.Leaf("a", "").Push(it)
		}
		slices.SortFunc(items, compareWithDeadlines)
		round := tree.BeginRound(now)
		for i, want := range items {
			got, ok := round.Next()
			if !ok || got != want {
				t.Fatalf("offer %d is %v, want %v", i, got, want)
			}
			if class := tree.Class(want, now); class != ares.ClassOf(cfg.priorityOfKey(want.orderKey, now)) {
				t.Fatalf("%s is %s by ageing, and stands in %s", want.ID, class, ares.ClassOf(cfg.priorityOfKey(want.orderKey, now)))
			}
			round.Allocate(Allocation{})
		}
		round.End()
		for i, it := range items {
			if rank, of := tree.Position(it); rank != i+1 || of != len(items) {
				t.Fatalf("%s is %d of %d, want %d of %d", it.ID, rank, of, i+1, len(items))
			}
		}
	})
}

// TestClassCeiling checks that a class ends where the next one begins. It also checks that ageing moves a job to the
// next class exactly at the returned time.
func TestClassCeiling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{AgeingStep: time.Duration(rapid.IntRange(1, 30).Draw(t, "step")) * time.Second}
		priority := rapid.IntRange(0, 2500).Draw(t, "priority")
		accepted := dawn.Add(time.Duration(rapid.IntRange(0, 90_000_000).Draw(t, "accepted")) * time.Millisecond)
		now := accepted.Add(time.Duration(rapid.IntRange(0, 90_000_000).Draw(t, "waited")) * time.Millisecond)
		roof, until := cfg.ClassCeiling(priority, accepted, now)
		class := ares.ClassOf(cfg.AgedPriority(priority, accepted, now))
		if at := ares.ClassOf(roof - 1); priority < 2000 && (at != class || ares.ClassOf(roof) == class) {
			t.Fatalf("class %s ends at %d", class, roof)
		}
		if until.IsZero() != (class == ares.High || class == ares.Critical) {
			t.Fatalf("class %s lasts until %s", class, until)
		}
		if until.IsZero() {
			return
		}
		before, after := ares.ClassOf(cfg.AgedPriority(priority, accepted, until.Add(-time.Millisecond))), ares.ClassOf(cfg.AgedPriority(priority, accepted, until))
		if !until.After(now) || before != class || after == class {
			t.Fatalf("of class %s at %s, %s right before %s and %s then", class, now, before, until, after)
		}
	})
}

// TestChangedItem checks that an item can be pushed again with other values. This must also work for the first item
// of a chunk, and if other items have the same key prefix.
func TestChangedItem(t *testing.T) {
	t.Parallel()
	cfg := Config{AgeingStep: time.Second, HalfLife: time.Hour}
	tree := New[int](cfg)
	leaf := tree.Leaf("a", "")
	var items []*Item[int]
	for i := range 5 * maxChunk {
		it := &Item[int]{ID: fmt.Sprintf("j%04d", i), Priority: 500, Accepted: dawn, Revision: 1}
		items = append(items, it)
		leaf.Push(it)
	}
	round := tree.BeginRound(dawn)
	for range items { // this sorts all arrivals
		_, _ = round.Next()
		round.Skip()
	}
	round.End()
	for i := range items { // push them again one by one, ahead of the others
		it := items[i*(maxChunk/2)%len(items)+i*(maxChunk/2)/len(items)]
		tree.Remove(it)
		it.Due, it.ClassCeiling = dawn.Add(time.Minute), 1000
		leaf.Push(it)
	}
	for i, it := range items {
		if rank, _ := tree.Position(it); rank != i+1 {
			t.Fatalf("%s is %d, want %d", it.ID, rank, i+1)
		}
	}
}
