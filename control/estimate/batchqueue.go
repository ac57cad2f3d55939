package estimate

import (
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// batchQueue holds the batches of a view for a reader that may be slower than the view. The method
// `put` never waits for the reader.
type batchQueue struct {
	news chan struct{} // holds one token when the queue may not be empty

	mu      sync.Mutex
	batches []ares.Batch
}

func newBatchQueue() *batchQueue { return &batchQueue{news: make(chan struct{}, 1)} }

func (m *batchQueue) put(b ares.Batch) {
	m.mu.Lock()
	m.batches = append(m.batches, b)
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// The method `next` removes and returns the oldest batch.
func (m *batchQueue) next() (b ares.Batch, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.batches) == 0 {
		return b, false
	}
	b = m.batches[0]
	if m.batches = m.batches[1:]; len(m.batches) == 0 {
		m.batches = nil // an empty list must not keep a snapshot in memory
	}
	return b, true
}
