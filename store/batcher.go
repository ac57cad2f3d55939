package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

const (
	// maxBatch and maxBatchScopes keep a flat transaction under etcd's limit of
	// 128 comparisons: one for each job, each tenant and each queue.
	maxBatch       = 100
	maxBatchScopes = 24
	// maxBatchBytes keeps a transaction under the store's request size.
	maxBatchBytes = 1 << 20
	// maxFlights is how many transactions are on their way at once.
	maxFlights = 8
	// maxWaitingBytes bounds the jobs that wait for a flight. The store writes so
	// much in a second or two; what is more would wait for nothing.
	maxWaitingBytes = 64 << 20
)

// batcher gathers the jobs of concurrent callers into shared transactions. A
// flight takes whatever waits, writes it, and goes on until nothing waits. A
// caller whose time is over leaves at once, whatever the store does.
type batcher struct {
	flush func(context.Context, []*creation)
	// eager is how many flights begin for whatever waits, at least one. More begin
	// only for a batch that is full by its jobs or bytes; one that is full by its
	// tenants and queues waits for a flight, for to count those that wait is dear
	// and so many at once are rare. A store far away is waited for best by many at once;
	// the embedded one writes one transaction after the other and shares our
	// processor, so there many small ones only cost more than a few large ones.
	eager int

	mu      sync.Mutex
	waiting []*call
	jobs    int // that wait
	bytes   int // of them
	flights int
	running sync.WaitGroup // the flights
}

// call is one caller's jobs.
type call struct {
	items []*creation // not yet taken into a flight
	open  int         // not yet settled
	done  chan struct{}
}

// do has the jobs written and returns the answer for each.
func (b *batcher) do(ctx context.Context, items []*creation) []Created {
	c := &call{items: items, open: len(items), done: make(chan struct{})}
	if err := b.join(c); err != nil {
		return allRefused(items, err)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Created, len(items))
	taken := len(items) - len(c.items)
	for i, item := range items {
		switch {
		case item.settled:
			out[i] = item.out
		case i >= taken:
			out[i] = Created{ID: item.id, Err: left(ctx, "nothing was written")}
		default:
			out[i] = Created{ID: item.id, Err: left(ctx, "the outcome is unknown, so repeat it")}
		}
	}
	b.drop(c)
	return out
}

// join queues a call and has it flown.
func (b *batcher) join(c *call) error {
	size := 0
	for _, item := range c.items {
		size += len(item.value)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+size > maxWaitingBytes {
		return ares.Errorf(ares.Exhausted, "too many submissions wait for the store, and nothing of this one was written: try again later")
	}
	b.bytes += size
	b.jobs += len(c.items)
	b.waiting = append(b.waiting, c)
	if b.flights < max(b.eager, 1) || b.flights < maxFlights && (b.jobs >= maxBatch || b.bytes >= maxBatchBytes) {
		b.flights++
		b.running.Go(b.fly)
	}
	return nil
}

// fly writes what waits until nothing does.
func (b *batcher) fly() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		batch, owners := b.take()
		if len(batch) == 0 {
			b.flights--
			return
		}
		b.mu.Unlock()
		b.flush(context.Background(), batch) // it carries several callers' jobs
		b.mu.Lock()
		for i, o := range owners {
			batch[i].settled = true
			if o.open--; o.open == 0 {
				close(o.done)
			}
		}
	}
}

// take removes the next batch from those who wait. The caller holds b.mu.
func (b *batcher) take() (batch []*creation, owners []*call) {
	size := 0
	scopes := make(map[string]bool, 4)
	for len(b.waiting) > 0 {
		c := b.waiting[0]
		for len(c.items) > 0 {
			item := c.items[0]
			scopes[item.tenant] = true
			if item.queue != "" {
				scopes[item.queue] = true
			}
			if len(batch) == maxBatch || len(scopes) > maxBatchScopes || len(batch) > 0 && size+len(item.value) > maxBatchBytes {
				return batch, owners
			}
			c.items = c.items[1:]
			b.bytes -= len(item.value)
			b.jobs--
			batch, owners, size = append(batch, item), append(owners, c), size+len(item.value)
		}
		b.waiting = b.waiting[1:]
	}
	return batch, owners
}

// drop takes back what of a call does not fly yet. The caller holds b.mu.
func (b *batcher) drop(c *call) {
	if len(c.items) == 0 {
		return
	}
	for _, item := range c.items {
		b.bytes -= len(item.value)
	}
	b.jobs -= len(c.items)
	c.items = nil
	b.waiting = slices.DeleteFunc(b.waiting, func(w *call) bool { return w == c })
}

// left answers a caller that did not wait for the end.
func left(ctx context.Context, so string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("create jobs: %s: %w", so, context.Canceled)
	}
	return ares.Errorf(ares.Unavailable, "create jobs: the store has not answered in time; %s", so)
}

func allRefused(items []*creation, err error) []Created {
	out := make([]Created, len(items))
	for i, item := range items {
		out[i] = Created{ID: item.id, Err: err}
	}
	return out
}
