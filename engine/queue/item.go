package queue

import "time"

// Item is a waiting job. The owner of an item sets the exported fields before it pushes the item. Invariant: the
// exported fields do not change while the item waits.
type Item[J any] struct {
	Owner J // the first field, adjacent to the data that the owner keeps before the item

	queue    *shapeQueue[J] // the queue of the item; nil if it does not wait
	orderKey uint64         // smaller is earlier; see itemKey
	boosted  bool           // orderKey comes from Due, not from ageing

	ID       string
	Priority int       // as submitted, or as the owner raised it, if the tree uses sort keys
	Accepted time.Time // ageing starts at this time
	Revision int64     // revision of its submission
	Shape    int       // jobs of one shape get the same result in a decision
	SortKey  uint64    // set by the owner: smaller is earlier within its class, if the tree uses sort keys

	// An item with a deadline is ordered as if its aged priority reached the end of its class at Due. If ageing
	// alone gives the item an earlier position, the earlier position counts. Invariant: Due is not in the past.
	// When Due has passed, or when the job enters another class, the owner removes the item and pushes it again
	// with other values.
	Due          time.Time
	ClassCeiling int // the end of its class; 0 for an item without a deadline
}

// IsWaiting reports whether the item is in a queue.
func (it *Item[J]) IsWaiting() bool { return it.queue != nil }

// Leaf returns the leaf queue in which the item waits, or nil if the item does not wait.
func (it *Item[J]) Leaf() *LeafQueue[J] {
	if it.queue == nil {
		return nil
	}
	return it.queue.leaf
}

// The method `before` reports whether the item precedes another item of the same leaf queue. The order of items
// is total, so no two items are equal. The method compares the order key, then the due time, the revision and
// the ID.
func (it *Item[J]) before(other *Item[J]) bool {
	if it.orderKey != other.orderKey {
		return it.orderKey < other.orderKey
	}
	if it.boosted && !it.Due.Equal(other.Due) { // the other is boosted too, because only such keys are between two levels
		return it.Due.Before(other.Due)
	}
	if it.Revision != other.Revision {
		return it.Revision < other.Revision
	}
	return it.ID < other.ID
}
