package queue

import "time"

// Item is a waiting job. Its owner sets the exported fields before the push.
// Invariant: they do not change while the item waits.
type Item[J any] struct {
	Owner J // the first field, next to what the owner keeps before the item

	queue    *shapeQueue[J] // where the item waits; nil when it does not wait
	orderKey uint64         // smaller is earlier; see itemKey
	boosted  bool           // orderKey comes from Due, not from ageing

	ID       string
	Priority int       // as submitted
	Accepted time.Time // ageing counts from here
	Revision int64     // of its submission
	Shape    int       // jobs of one shape get the same result in a decision
	SortKey  uint64    // given by the owner: smaller is earlier within its class, when the tree is ordered so

	// An item with a deadline stands where ageing would have put it to reach the end
	// of its class at Due, unless it has waited for longer than that.
	// Invariant: Due is not past. When it is, or when the job enters another class,
	// the owner removes the item and pushes it again with other values.
	Due          time.Time
	ClassCeiling int // where its class ends; 0 for an item without a deadline
}

// IsWaiting reports whether the item is in a queue.
func (it *Item[J]) IsWaiting() bool { return it.queue != nil }

// Leaf returns the leaf queue where the item waits, or nil when it does not wait.
func (it *Item[J]) Leaf() *LeafQueue[J] {
	if it.queue == nil {
		return nil
	}
	return it.queue.leaf
}

// before reports whether the item precedes another one of its leaf queue. It is a
// total order: by order key, then by due time, revision and ID.
func (it *Item[J]) before(other *Item[J]) bool {
	if it.orderKey != other.orderKey {
		return it.orderKey < other.orderKey
	}
	if it.boosted && !it.Due.Equal(other.Due) { // the other is boosted too: only such keys lie between two levels
		return it.Due.Before(other.Due)
	}
	if it.Revision != other.Revision {
		return it.Revision < other.Revision
	}
	return it.ID < other.ID
}
