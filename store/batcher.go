package store

import (
	"context"
	"sync"
)

const (
	// maxBatch and maxBatchTenants keep a flat transaction under etcd's limit
	// of 128 comparisons: one for each job and each tenant.
	maxBatch        = 100
	maxBatchTenants = 24
	// maxBatchBytes keeps a transaction under the store's request size.
	maxBatchBytes = 1 << 20
	// maxFlights is how many transactions are on their way at once. One alone
	// would leave the disk idle while the next is prepared.
	maxFlights = 8
)

// batcher gathers the jobs of concurrent callers into shared transactions
// without a goroutine of its own: a caller that finds a flight free flies,
// with what waits, until its own jobs are written; then it hands the flight to
// somebody who waits.
type batcher struct {
	flush   func(context.Context, []*creation)
	mu      sync.Mutex
	waiting []*call
	flights int
}

// call is one caller's jobs.
type call struct {
	items  []*creation // not yet taken into a flight
	open   int         // not yet written
	flying bool        // owns a flight, or was just handed one
	turn   chan bool   // true: fly; false: all yours are written
}

func (b *batcher) do(ctx context.Context, items []*creation) {
	c := &call{items: items, open: len(items), turn: make(chan bool, 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	if b.flights >= maxFlights {
		b.mu.Unlock()
		if !<-c.turn {
			return
		}
		b.mu.Lock()
	} else {
		b.flights++
		c.flying = true
	}
	// From here on this call owns a flight.
	for c.open > 0 {
		batch, owners := b.take()
		if len(batch) == 0 {
			// Its jobs are on other flights: give this one up and wait.
			c.flying = false
			b.pass()
			b.mu.Unlock()
			if !<-c.turn {
				return
			}
			b.mu.Lock()
			continue
		}
		b.mu.Unlock()
		b.flush(context.WithoutCancel(ctx), batch)
		b.mu.Lock()
		for _, o := range owners {
			if o.open--; o.open == 0 && !o.flying {
				o.turn <- false
			}
		}
	}
	b.pass()
	b.mu.Unlock()
}

// take removes the next batch from those who wait. The caller holds b.mu.
func (b *batcher) take() (batch []*creation, owners []*call) {
	size := 0
	tenants := make(map[string]bool, 4)
	for len(b.waiting) > 0 {
		c := b.waiting[0]
		for len(c.items) > 0 {
			item := c.items[0]
			tenants[item.tenant] = true
			if len(batch) == maxBatch || len(tenants) > maxBatchTenants || len(batch) > 0 && size+len(item.value) > maxBatchBytes {
				return batch, owners
			}
			c.items = c.items[1:]
			batch, owners, size = append(batch, item), append(owners, c), size+len(item.value)
		}
		b.waiting = b.waiting[1:]
	}
	return batch, owners
}

// pass hands a flight to the first call that waits without one, or ends it.
// The caller holds b.mu.
func (b *batcher) pass() {
	for _, c := range b.waiting {
		if !c.flying {
			c.flying = true
			c.turn <- true
			return
		}
	}
	b.flights--
}
