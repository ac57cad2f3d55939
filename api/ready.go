package api

import (
	"context"
	"errors"
	"fmt"
)

// NotReady says why a server must not be sent work. Anybody may be told the
// word; the error, with the remedy, is for operators.
type NotReady struct {
	Word string
	Err  error
}

func (n *NotReady) Error() string { return n.Err.Error() }
func (n *NotReady) Unwrap() error { return n.Err }

// inAWord is what anybody may know of an error of readiness.
func inAWord(err error) string {
	if n, ok := errors.AsType[*NotReady](err); ok {
		return n.Word
	}
	return "the store does not answer"
}

// alert says what is held back and why. That a restored store waits is known
// to every server; for how much longer, to the leader alone.
func (d *Doors) alert(ctx context.Context) string {
	if d.cfg.Alert != nil {
		if a := d.cfg.Alert(); a != "" {
			return a
		}
	}
	hold, err := d.cfg.Store.Hold(ctx)
	if err != nil || hold == nil {
		return "" // a store that does not answer is told by readiness
	}
	return fmt.Sprintf("the store was restored from a backup: nothing is placed until a server has led for %s, when nothing can live that was started before", hold.For)
}
