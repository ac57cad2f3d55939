package control

import (
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// mailbox holds the batches that a view has fed to somebody who reads them in its
// own time. Putting one in never waits for the reader's work.
type mailbox struct {
	news chan struct{} // holds one token when something may be inside

	mu      sync.Mutex
	batches []ares.Batch
}

func newMailbox() *mailbox { return &mailbox{news: make(chan struct{}, 1)} }

func (m *mailbox) put(b ares.Batch) {
	m.mu.Lock()
	m.batches = append(m.batches, b)
	m.mu.Unlock()
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// next takes the oldest out.
func (m *mailbox) next() (b ares.Batch, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.batches) == 0 {
		return b, false
	}
	b = m.batches[0]
	if m.batches = m.batches[1:]; len(m.batches) == 0 {
		m.batches = nil // a snapshot must not be held by an empty list
	}
	return b, true
}
