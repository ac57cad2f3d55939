package kubetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Await calls `check` again and again until it returns no error. After `limit`, or when ctx ends, it returns why it stopped
// and the latest error.
func Await(ctx context.Context, limit, every time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %s", limit))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// Workers is how many calls to make at once to keep an API server on loopback busy.
const Workers = 32

// Each calls `do` for 0 to count-1, as many at once as there are workers, and returns the errors. After the first error it starts no more.
func Each(workers, count int, do func(i int) error) error {
	var (
		next   atomic.Int64
		failed atomic.Bool
		mu     sync.Mutex
		errs   []error
		group  sync.WaitGroup
	)
	for range min(workers, count) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(count) && !failed.Load(); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					failed.Store(true)
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
