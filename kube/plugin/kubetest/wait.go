package kubetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Await calls `check` again and again until it returns no error. After `limit` it returns the latest error.
func Await(ctx context.Context, limit, every time.Duration, check func(context.Context) error) error {
	// The context of the check ends later than the wait. Otherwise the error at the end would be that of a client that has
	// no time left, instead of what was waited for.
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for start := time.Now(); ; {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if time.Since(start) >= limit {
			return fmt.Errorf("waited %s: %w", limit, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// AwaitCount calls `count` again and again until it returns at least `want`. It gives up only when the count has not grown for
// a while: how long the whole takes depends on the machine.
func AwaitCount(ctx context.Context, patience, every time.Duration, want int, count func(context.Context) (int, error)) error {
	for most := -1; ; {
		err := Await(ctx, patience, every, func(ctx context.Context) error {
			n, err := count(ctx)
			if err != nil {
				return err
			}
			if n <= most {
				return fmt.Errorf("%d of %d, and none more", n, want)
			}
			most = n
			return nil
		})
		if err != nil || most >= want {
			return err
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
