package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	ares "github.com/ares-scheduler/ares"
)

const (
	// These two limits apply to a transaction without nested transactions. They keep it below
	// etcd's limit of 128 comparisons. A batch needs one comparison for each job, each tenant and
	// each queue.
	maxBatch       = 100
	maxBatchScopes = 24
	// maxBatchBytes keeps a transaction below the maximum request size of the store.
	maxBatchBytes = 1 << 20
	// maxFlushes is the maximum number of transactions that run at the same time.
	maxFlushes = 8
	// maxWaitingBytes limits the total size of the jobs that wait for a transaction. The store
	// writes 64 MiB in a second or two. A higher limit would only make callers wait longer.
	maxWaitingBytes = 64 << 20
)

// A `batcher` collects the jobs of concurrent callers into shared transactions. A flush loop
// writes waiting jobs until no job is left. A caller returns immediately when its context ends.
type batcher struct {
	flush func(context.Context, []*creation)
	// Until this number of loops is running, even a small batch starts a flush loop. The number
	// must be positive. More loops start only if a batch has reached its limit of jobs or bytes.
	// If a batch has reached its limit of tenants and queues but no other limit, it starts no
	// loop. It waits for a loop that is already running. Counting the waiting tenants and queues
	// is expensive, and a batch rarely has that many of them. A remote store is faster with many
	// concurrent transactions. The embedded store writes one transaction after the other and uses
	// this machine's own processor. For the embedded store, a few large transactions are therefore
	// cheaper.
	eager int

	mu      sync.Mutex
	waiting []*call
	jobs    int // number of waiting jobs
	bytes   int // their size
	flushes int
	running sync.WaitGroup // the running flush loops
}

// A `call` holds the jobs that one caller wants to create.
type call struct {
	items []*creation // jobs that no flush loop has taken yet
	open  int         // number of jobs that are not answered yet
	done  chan struct{}
}

// This method queues the jobs for a shared transaction and returns the answer for each job. It
// starts a flush loop if one is needed.
func (b *batcher) do(ctx context.Context, items []*creation) []Created {
	c, size := &call{items: items, open: len(items), done: make(chan struct{})}, 0
	for _, item := range items {
		size += len(item.value)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+size > maxWaitingBytes {
		return failAll(items, ares.Errorf(ares.Exhausted, "too many submissions wait for the store, so this one was not stored: try again later"))
	}
	b.bytes += size
	b.jobs += len(items)
	b.waiting = append(b.waiting, c)
	if b.flushes < max(b.eager, 1) || b.flushes < maxFlushes && (b.jobs >= maxBatch || b.bytes >= maxBatchBytes) {
		b.flushes++
		b.running.Go(b.flushLoop)
	}
	b.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	b.mu.Lock()
	out := make([]Created, len(items))
	taken := len(items) - len(c.items)
	for i, item := range items {
		switch {
		case item.settled:
			out[i] = item.out
		case i >= taken:
			out[i] = Created{ID: item.id, Err: unansweredError(ctx, "nothing was written")}
		default:
			out[i] = Created{ID: item.id, Err: unansweredError(ctx, "the outcome is unknown, so repeat it")}
		}
	}
	b.drop(c)
	return out
}

// flushLoop writes waiting jobs until no job waits.
func (b *batcher) flushLoop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		b.gather()
		batch, owners := b.take()
		if len(batch) == 0 {
			b.flushes--
			return
		}
		b.mu.Unlock()
		b.flush(context.Background(), batch) // the context is not a caller's, because the batch holds jobs of several callers
		b.mu.Lock()
		for i, o := range owners {
			batch[i].settled = true
			if o.open--; o.open == 0 {
				close(o.done)
			}
		}
	}
}

// This method lets the callers that are about to queue jobs do so before the next batch is taken. It waits for no caller that is not ready
// to run, and not longer than for a few turns of the Go scheduler. Without it, the first of several concurrent callers would get a
// transaction of its own. The caller must hold b.mu.
func (b *batcher) gather() {
	const turns = 8
	for turn, before := 0, -1; b.jobs > before && b.jobs < maxBatch && turn < turns; turn++ {
		before = b.jobs
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
}

// This method removes the next batch of jobs from the waiting calls. The caller
// must hold b.mu.
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

// If a call has jobs that no flush loop has taken yet, this method removes
// these jobs. The caller must hold b.mu.
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

// unansweredError is the error for a caller whose context ended before its jobs were written.
func unansweredError(ctx context.Context, so string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("create jobs: %s: %w", so, context.Canceled)
	}
	return ares.Errorf(ares.Unavailable, "create jobs: the store has not answered in time; %s", so)
}

func failAll(items []*creation, err error) []Created {
	out := make([]Created, len(items))
	for i, item := range items {
		out[i] = Created{ID: item.id, Err: err}
	}
	return out
}
