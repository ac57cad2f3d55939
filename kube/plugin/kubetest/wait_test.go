package kubetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAwaitSaysWhyItStopped(t *testing.T) {
	t.Parallel()
	latest := errors.New("3 of 4 pods are bound")
	err := Await(t.Context(), 10*time.Millisecond, time.Millisecond, func(context.Context) error { return latest })
	if !errors.Is(err, latest) || !strings.Contains(err.Error(), "waited 10ms") {
		t.Errorf("after the limit: got %v", err)
	}
	p := newProcess(t.TempDir(), "short", "true")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := p.While(t.Context())
	defer cancel()
	err = Await(ctx, time.Minute, time.Millisecond, func(context.Context) error { return latest })
	if !errors.Is(err, latest) || !strings.Contains(err.Error(), "short ended") {
		t.Errorf("after the end of the process: got %v", err)
	}
}

// TestAwaitCountIsPatient: it waits as long as the count grows, however long that takes in all, and no longer.
func TestAwaitCountIsPatient(t *testing.T) {
	t.Parallel()
	n := 0
	grow := func(context.Context) (int, error) { n++; return n, nil }
	if err := AwaitCount(t.Context(), time.Minute, time.Microsecond, 50, grow); err != nil || n != 50 {
		t.Errorf("a count that grows: got %d and %v, want 50", n, err)
	}
	stuck := func(context.Context) (int, error) { return 7, nil }
	err := AwaitCount(t.Context(), 10*time.Millisecond, time.Millisecond, 50, stuck)
	if err == nil || !strings.Contains(err.Error(), "7 of 50") {
		t.Errorf("a count that does not grow: got %v", err)
	}
}

func TestEachStopsAfterAnError(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	broken := errors.New("broken")
	err := Each(1, 1000, func(i int) error {
		calls.Add(1)
		if i == 2 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || calls.Load() != 3 {
		t.Errorf("got %v after %d calls, want the error of the third call", err, calls.Load())
	}
	calls.Store(0)
	if err := Each(8, 100, func(int) error { calls.Add(1); return nil }); err != nil || calls.Load() != 100 {
		t.Errorf("got %d calls and %v, want 100 calls", calls.Load(), err)
	}
}
