package accounting

import (
	"context"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/history"
)

// pricesFor is how long prices are cached. The constant pricesWithin is the timeout for reading prices.
const (
	pricesFor    = 5 * time.Second
	pricesWithin = time.Second
)

// recentPrices is the cache of prices.
type recentPrices struct {
	mu     sync.Mutex
	prices history.Prices
	known  bool // prices were read at least once
	asked  time.Time
}

// RecentPrices returns prices that may be a few seconds old. RecentPrices is for answers about live jobs, which must
// not wait for a database. To keep waits short, only one caller at a time reads the prices from the database, with a
// short timeout. The result `known` is false until the prices have been read once.
func (l *Accounting) RecentPrices(ctx context.Context) (prices history.Prices, known bool) {
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
