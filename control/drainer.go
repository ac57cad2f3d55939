package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Drainer empties the nodes that are drained. A drain is a record, and the
// Drainer acts on "a live seat on a drained node", so it goes on over a change
// of leaders, and finds a job that was placed in the moment before the cordon
// was seen too.
type Drainer struct {
	Store *store.Store
	View  *View
	Now   func() time.Time
	Log   *slog.Logger
	// Tick is how often seats are looked at. Default 250 ms.
	Tick time.Duration
}

// Run asks until ctx ends.
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
			continue // not yet our own reign's state
		}
		for _, c := range d.View.Drains() {
			if err := d.drain(ctx, lead, c); err != nil {
				return err
			}
		}
	}
}

// drain asks every attempt with a live seat on the node to end.
func (d *Drainer) drain(ctx context.Context, lead *store.Leadership, c *ares.Cordon) error {
	entries, _, _ := d.View.SeatsOn(c.Node)
	for _, e := range entries {
		if next := e.Run.Clone(); !next.Drain(e.Job, c, d.Now()) {
			continue // nothing to ask, by what is known here
		}
		// gofail: var drainerBeforeStop struct{}
		asked, err := d.Store.Drain(ctx, lead, e.Job.ID, e.Run.Fence(), *c, d.Now())
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case ares.CodeOf(err) == ares.Conflict:
			return nil // another drain by now, or another leader: look again
		case err != nil:
			d.Log.Warn("move a job off a drained node", "job", e.Job.ID, "node", c.Node, "error", err) // the others must not wait for it
		case asked:
			d.Log.Info("moving a job off a drained node", "job", e.Job.ID, "node", c.Node)
		}
	}
	return nil
}

// Drains are the drains under way.
func (v *View) Drains() []*ares.Cordon {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []*ares.Cordon
	for _, n := range v.nodes { // order-free: each node is drained for itself
		if n.Cordon != nil && n.Cordon.Drain {
			out = append(out, n.Cordon)
		}
	}
	return out
}

// LeftOn counts the seats on a node that may still hold a live process, and
// names the jobs that a drain without force leaves running there.
func (v *View) LeftOn(node string) (seats int, enduring []ares.JobID) {
	entries, _, _ := v.SeatsOn(node)
	for _, e := range entries {
		n := len(unsettledOn(e, node))
		seats += n
		if a := e.Run.Current(); n > 0 && a != nil && e.Run.Stop == nil && e.Run.Endures(e.Job) {
			enduring = append(enduring, e.Job.ID)
		}
	}
	return seats, enduring
}
