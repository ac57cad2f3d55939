package apipb

import (
	"context"
	"errors"
	"testing"
)

func TestSendWindow(t *testing.T) {
	w := NewSendWindow()
	ctx, cancel := context.WithCancelCause(t.Context())
	if n, err := w.Take(ctx, SessionWindow-10); n != SessionWindow-10 || err != nil {
		t.Error(n, err)
	}
	if n, err := w.Take(ctx, 100); n != 10 || err != nil {
		t.Error(n, err)
	}
	if n, err := w.Take(ctx, 0); n != 0 || err != nil {
		t.Error(n, err)
	}
	got := make(chan int)
	go func() {
		n, _ := w.Take(ctx, 100)
		got <- n
	}()
	w.Consumed(7)
	if n := <-got; n != 7 {
		t.Error(n)
	}
	gone := errors.New("the reader is gone")
	cancel(gone)
	if _, err := w.Take(ctx, 1); !errors.Is(err, gone) {
		t.Error(err)
	}
	w.Consumed(1 << 31) // more than was ever sent
	if n, _ := w.Take(t.Context(), 2*SessionWindow); n != SessionWindow {
		t.Error(n)
	}
}
