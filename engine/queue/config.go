package queue

import "time"

// Config says how time counts.
type Config struct {
	// The time that a job waits to gain one point of priority. 0 turns ageing off.
	AgeingStep time.Duration
	// The time after which past use counts half, rounded down to the millisecond.
	// 0 turns past use off.
	HalfLife time.Duration
	// Items of a leaf queue are ordered by the class they were submitted with, and
	// then by the sort key that the owner gave each of them, instead of by aged
	// priority. Jobs do not age then.
	BySortKey bool
}

// DefaultConfig returns one point of priority per 10 seconds, and a half-life of one day.
func DefaultConfig() Config { return Config{AgeingStep: 10 * time.Second, HalfLife: 24 * time.Hour} }

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"
