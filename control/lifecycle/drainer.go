package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// Drainer moves jobs off drained nodes. The Drainer looks for live seats on drained nodes and does not react to
// events. Therefore a drain continues after a change of leader. The Drainer also finds a job that was placed just
// before the cordon became visible.
type Drainer struct {
	Store *store.Store
	View  *cache.View
	Now   func() time.Time
	Log   *slog.Logger
	// Tick is the interval at which seats are checked. Default 250 ms.
	Tick time.Duration
}

// Run drains nodes until ctx ends.
func (d *Drainer) Run(ctx context.Context, lead *store.Leadership) error {
	tick := time.NewTicker(cmp.Or(d.Tick, 250*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if d.View.Revision() < lead.Revision {
			continue // the view does not have the state of this term yet
		}
		for _, c := range d.View.Drains() {
			if err := d.drain(ctx, lead, c); err != nil {
				return err
			}
		}
	}
}

// The method `drain` asks each attempt with a live seat on the node to stop.
func (d *Drainer) drain(ctx context.Context, lead *store.Leadership, c *ares.Cordon) error {
	entries, _, _ := d.View.SeatsOn(c.Node)
	for _, e := range entries {
		if next := e.Run.Clone(); !next.Drain(e.Job, c, d.Now()) {
			continue // no live attempt is known here, so there is nothing to stop
		}
		// gofail: var drainerBeforeStop struct{}
		asked, err := d.Store.Drain(ctx, lead, e.Job.ID, e.Run.Fence(), *c, d.Now())
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case ares.CodeOf(err) == ares.Conflict:
			return nil // the drain or the leader has changed, so check again
		case err != nil:
			d.Log.Warn("move a job off a drained node", "job", e.Job.ID, "node", c.Node, "error", err) // continue, because the other jobs must not wait for this one
		case asked:
			d.Log.Info("moving a job off a drained node", "job", e.Job.ID, "node", c.Node)
		}
	}
	return nil
}
