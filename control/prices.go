package control

import (
	"context"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/history"
)

// How long prices that were read are believed, and how long one reader waits for
// new ones.
const (
	pricesFor    = 5 * time.Second
	pricesWithin = time.Second
)

// recentPrices are the prices as they were last read.
type recentPrices struct {
	mu     sync.Mutex
	prices history.Prices
	known  bool // they were read once
	asked  time.Time
}

// RecentPrices are the prices of a few seconds ago, for answers about live jobs:
// those do not wait for a database. One caller in a while asks it, for a moment.
// They are not known before it has answered once.
func (l *Ledger) RecentPrices(ctx context.Context) (prices history.Prices, known bool) {
	r := &l.recent
	r.mu.Lock()
	ask := l.Now().Sub(r.asked) > pricesFor
	if ask {
		r.asked = l.Now()
	}
	prices, known = r.prices, r.known
	r.mu.Unlock()
	if !ask {
		return prices, known
	}
	ctx, cancel := context.WithTimeout(ctx, pricesWithin)
	defer cancel()
	read, err := l.History.Prices(ctx)
	if err != nil {
		return prices, known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prices, r.known = read, true
	return read, true
}
