package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// try makes one call until it succeeds, fails for good, or has been tried
// often enough. What do sends must not change between tries.
func try[T any](ctx context.Context, c *Client, do func(context.Context, *grpc.ClientConn) (T, error)) (T, error) {
	var zero T
	for n := 1; ; n++ {
		at := c.current.Load()
		one, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
		answer, err := do(one, c.conns[at])
		cancel()
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil || n >= c.opts.Attempts || !passing(err) {
			return zero, apipb.FromStatus(err)
		}
		if err = c.pause(ctx, at, n, err); err != nil {
			return zero, err
		}
	}
}

// passing says whether a failure may be gone at the next try.
func passing(err error) bool {
	code := ares.CodeOf(apipb.FromStatus(err))
	return code == ares.Unavailable || code == ares.Exhausted
}

// pause goes to the next address after failed try n at address at, and waits:
// not at all before every address has been tried, else longer each time, and
// at least as long as the server asked for. All that were turned away together
// were asked for the same, so some wait up to half as long again.
func (c *Client) pause(ctx context.Context, at int64, n int, cause error) error {
	if ares.CodeOf(apipb.FromStatus(cause)) == ares.Unavailable {
		next := (at + 1) % int64(len(c.conns))
		if c.current.CompareAndSwap(at, next) { // else another call has moved on already
			c.conns[next].ResetConnectBackoff()
		}
	}
	hint := apipb.RetryAfter(cause)
	round := n / len(c.conns)
	if round == 0 && hint == 0 {
		return nil
	}
	wait := min(c.opts.Backoff<<min(max(round-1, 0), 16), maxBackoff)
	wait = max(wait/2+rand.N(wait/2+1), hint+rand.N(hint/2+1))
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return apipb.FromStatus(cause) // it would be too late
	}
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
