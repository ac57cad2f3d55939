package queue

import "time"

// Config holds the settings for ageing, past usage and the order of items.
type Config struct {
	// AgeingStep is the time that a job waits to gain one point of priority. The value 0 turns ageing off.
	AgeingStep time.Duration
	// HalfLife is the time after which past usage counts half. HalfLife is rounded down to the millisecond. The value
	// 0 means that past usage does not count.
	HalfLife time.Duration
	// BySortKey orders the items of a leaf queue by the class of Item.Priority, and then by the sort key that the owner
	// set. The tree then does not age items. An owner that raises the class of a waiting job pushes its item again.
	BySortKey bool
}

// DefaultConfig returns an ageing step of 10 seconds per point of priority, and a half-life of one day.
func DefaultConfig() Config { return Config{AgeingStep: 10 * time.Second, HalfLife: 24 * time.Hour} }

// DefaultQueue is the queue of a job that does not name a queue.
const DefaultQueue = "default"
