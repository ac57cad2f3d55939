package apipb

import (
	"context"
	"sync"
)

// These are the limits of the data that one message of a session has, and that one side of a session may send before the other side has
// consumed it.
const (
	// SessionChunk is a little less than 32 KiB, so that a whole message is. For larger ones, gRPC takes buffers of 1 MiB, and clears them
	// each time, at each of the four ends between a user and a job.
	SessionChunk  = 32<<10 - 128
	SessionWindow = 512 << 10
	// SessionConfirm is how much one side consumes before it says so. It is much less than SessionWindow, so the other side never waits for
	// the rest.
	SessionConfirm = SessionWindow / 8
)

// SendWindow counts what one side of a session may still send. Without it, a reader that stops reading would fill the buffers of the
// servers between. Its methods may be called concurrently.
type SendWindow struct {
	mu    sync.Mutex
	free  int
	freed chan struct{} // closed when free grows; replaced after that
}

// NewSendWindow returns a window of SessionWindow bytes.
func NewSendWindow() *SendWindow {
	return &SendWindow{free: SessionWindow, freed: make(chan struct{})}
}

// Take waits until something may be sent, and returns how much of n bytes.
func (w *SendWindow) Take(ctx context.Context, n int) (int, error) {
	for {
		w.mu.Lock()
		if got := min(n, w.free); got > 0 || n == 0 {
			w.free -= got
			w.mu.Unlock()
			return got, nil
		}
		freed := w.freed
		w.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Consumed adds what the other side has consumed. The window never becomes larger than SessionWindow, whatever the other side says.
func (w *SendWindow) Consumed(n uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = min(w.free+int(min(n, SessionWindow)), SessionWindow)
	close(w.freed)
	w.freed = make(chan struct{})
}
