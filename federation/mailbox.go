package federation

import (
	"context"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// maxUnsent is the number of messages that may wait for a slow receiver. Then its session ends, and the next session
// begins with the current state.
const maxUnsent = 100_000

// A mailbox passes messages to the goroutine that sends them. Putting a message never blocks.
type mailbox[M any] struct {
	mu    sync.Mutex
	items []M
	full  bool
	news  chan struct{} // holds one token when there are items
}

func newMailbox[M any]() *mailbox[M] { return &mailbox[M]{news: make(chan struct{}, 1)} }

func (b *mailbox[M]) put(m M) {
	b.mu.Lock()
	if len(b.items) >= maxUnsent {
		b.full = true
	} else {
		b.items = append(b.items, m)
	}
	b.mu.Unlock()
	wake(b.news)
}

// The method `deliver` sends messages in their order until ctx ends or a message cannot be sent.
func (b *mailbox[M]) deliver(ctx context.Context, send func(M) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.news:
		}
		b.mu.Lock()
		items, full := b.items, b.full
		b.items = nil
		b.mu.Unlock()
		for _, m := range items {
			if err := send(m); err != nil {
				return err
			}
		}
		if full {
			return ares.Errorf(ares.Exhausted, "the other side reads its messages too slowly: %d messages waited", maxUnsent)
		}
	}
}

// The function `wake` puts a token into a channel that holds at most one.
func wake(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}
