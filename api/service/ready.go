package service

import (
	"context"
	"errors"
	"fmt"
)

// NotReady is the error of a server that cannot accept work. Word is a short
// reason that anybody may see. Err is the full error for operators and includes
// the remedy.
type NotReady struct {
	Word string
	Err  error
}

func (n *NotReady) Error() string { return n.Err.Error() }
func (n *NotReady) Unwrap() error { return n.Err }

// inAWord returns the short public reason why the readiness check failed.
func inAWord(err error) string {
	if n, ok := errors.AsType[*NotReady](err); ok {
		return n.Word
	}
	return "the store does not answer"
}

// The method `alert` returns a warning about the whole cluster, for example
// that scheduling is delayed after a restore. Every server knows that
// scheduling is delayed after a restore, but only the leader knows how much
// longer the delay lasts.
func (d *Services) alert(ctx context.Context) string {
	if d.Cfg.Alert != nil {
		if a := d.Cfg.Alert(); a != "" {
			return a
		}
	}
	hold, err := d.Cfg.Store.Hold(ctx)
	if err != nil || hold == nil {
		return "" // readiness reports a store that does not answer
	}
	return fmt.Sprintf("the store was restored from a backup: nothing is placed until a server has led for %s, when nothing can live that was started before", hold.For)
}
