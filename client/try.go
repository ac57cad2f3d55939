package client

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// The function `try` repeats one call until it succeeds, fails permanently, or
// reaches the maximum number of tries. The callback `do` must send the same
// request in every try.
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

// The function `passing` reports whether a failure may be temporary.
func passing(err error) bool {
	code := ares.CodeOf(apipb.FromStatus(err))
	return code == ares.Unavailable || code == ares.Exhausted
}

// The method `pause` is called after try n has failed. If the server is
// unavailable, the method switches to the next address. Then it waits. While
// some addresses have not been tried yet, the method does not wait, unless the
// server requested a wait. After every address has been tried, the method waits
// longer each time, and at least as long as the server requested. Part of each
// wait is random. Clients that were rejected at the same time therefore do not
// all retry at the same time.
func (c *Client) pause(ctx context.Context, at int64, n int, cause error) error {
	if ares.CodeOf(apipb.FromStatus(cause)) == ares.Unavailable {
		next := (at + 1) % int64(len(c.conns))
		if c.current.CompareAndSwap(at, next) { // otherwise another call has already switched
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
		return apipb.FromStatus(cause) // the wait would exceed the deadline
	}
	if !pause.For(ctx, wait) {
		return ctx.Err()
	}
	return nil
}
