package agent

import (
	"context"
	"runtime"
	"time"
)

// A node may get hundreds of short jobs at once. If it started all of them together, they would compete for its processors with the
// running jobs, and each of them would take longer. So only a few starts are under way at the same time.
const startsPerCPU = 4

// startPatience is the longest time that a start waits for others. A start can hang, for example on a network disk that does not answer, and
// must not keep the node from starting other jobs.
const startPatience = time.Second

// startLimit limits the number of starts that are under way at the same time.
type startLimit chan struct{}

func newStartLimit() startLimit { return make(startLimit, startsPerCPU*runtime.GOMAXPROCS(0)) }

// The method `begin` waits until a start may begin, and returns a function that must be called when it has ended.
func (l startLimit) begin(ctx context.Context) (end func()) {
	select {
	case l <- struct{}{}:
		return func() { <-l }
	default:
	}
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case l <- struct{}{}:
		return func() { <-l }
	case <-patience.C:
	case <-ctx.Done():
	}
	return func() {}
}
