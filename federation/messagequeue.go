package federation

import (
	"context"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

// maxUnsent is the number of messages that may wait for a slow receiver. Then its session ends, and the next session
// begins with the current state.
const maxUnsent = 100_000

// maxUnread is the number of received messages that may wait to be handled. Then no more are read from the stream.
const maxUnread = 20_000

// A messageQueue passes messages from one goroutine to another: to the one that sends them, or to the one that handles what was
// received.
type messageQueue[M any] struct {
	mu     sync.Mutex
	items  []M
	urgent []M // go before items
	full   bool
	news   chan struct{} // holds one token when there are items
	room   chan struct{} // holds one token after items were taken
}

func newMessageQueue[M any]() *messageQueue[M] {
	return &messageQueue[M]{news: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// The method `put` adds a message to be sent. It never blocks.
func (b *messageQueue[M]) put(m M) {
	b.mu.Lock()
	if len(b.items) >= maxUnsent {
		b.full = true
	} else {
		b.items = append(b.items, m)
	}
	b.mu.Unlock()
	wake(b.news)
}

// The method `putFirst` adds a message to be sent before all others that wait.
func (b *messageQueue[M]) putFirst(m M) {
	b.mu.Lock()
	b.urgent = append(b.urgent, m)
	b.mu.Unlock()
	wake(b.news)
}

// The method `add` adds a received message. It waits while too many messages wait to be handled, so that the sender feels it.
func (b *messageQueue[M]) add(ctx context.Context, m M) error {
	for {
		b.mu.Lock()
		fits := len(b.items) < maxUnread
		if fits {
			b.items = append(b.items, m)
		}
		b.mu.Unlock()
		if fits {
			wake(b.news)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.room:
		}
	}
}

// The method `take` returns all received messages.
func (b *messageQueue[M]) take() []M {
	b.mu.Lock()
	items := b.items
	b.items = nil
	b.mu.Unlock()
	wake(b.room)
	return items
}

// The method `deliver` sends messages, urgent ones first and the others in their order, until ctx ends or a message cannot be sent.
func (b *messageQueue[M]) deliver(ctx context.Context, send func(M) error) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-b.news:
		}
		if err := b.deliverUrgent(send); err != nil {
			return err
		}
		b.mu.Lock()
		items, full := b.items, b.full
		b.items = nil
		b.mu.Unlock()
		for _, m := range items {
			if err := send(m); err != nil {
				return err
			}
			if err := b.deliverUrgent(send); err != nil {
				return err
			}
		}
		if full {
			return ares.Errorf(ares.Exhausted, "the other side reads its messages too slowly: %d messages waited", maxUnsent)
		}
	}
}

func (b *messageQueue[M]) deliverUrgent(send func(M) error) error {
	b.mu.Lock()
	urgent := b.urgent
	b.urgent = nil
	b.mu.Unlock()
	for _, m := range urgent {
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// The function `wake` puts a token into a channel that holds at most one.
func wake(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}
