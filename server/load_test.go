package server

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ares-scheduler/ares/pause"
)

// TestSlowLoad checks that a server on a slow machine loads its state, however long that takes.
func TestSlowLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read atomic.Int64
		told := 0
		err := awaitProgress(t.Context(), read.Load, func(time.Duration) { told++ }, func(ctx context.Context) error {
			for range 60 {
				if !pause.For(ctx, maxLoadPause/2) {
					return ctx.Err()
				}
				read.Add(1)
			}
			return nil
		})
		if err != nil {
			t.Errorf("a slow load fails: %v", err)
		}
		if told < 20 {
			t.Errorf("the progress was logged %d times in 30 minutes", told)
		}
	})
}

// TestStuckLoad checks that a server whose store sends nothing ends, and says what to check.
func TestStuckLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var read atomic.Int64
		err := awaitProgress(t.Context(), read.Load, func(time.Duration) {}, func(ctx context.Context) error {
			read.Add(1) // one part, and then nothing
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "check that etcd is healthy") {
			t.Errorf("a stuck load: %v", err)
		}
		if took := time.Since(start); took > 2*maxLoadPause {
			t.Errorf("it took %v", took)
		}
	})
}

// TestCanceledLoad checks that the loading ends with its context.
func TestCanceledLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := awaitProgress(ctx, func() int64 { return 0 }, func(time.Duration) {}, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a canceled load: %v", err)
		}
	})
}
