package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Reaper takes back what lost nodes held. It acts on "a seat on a node without
// a session", not on the event of losing one, so nothing is missed over a
// change of leaders. Its timers are the leader's own and start anew with it.
type Reaper struct {
	Store *store.Store
	View  *View
	// TTL of a session, for nodes whose record does not tell theirs: so long is a
	// node already silent when its session ends.
	TTL time.Duration
	Now func() time.Time
	Log *slog.Logger
	// BrakePercent stops all voiding when more of the nodes than this are gone
	// with jobs of theirs, and at least three; 100 never brakes. Nodes that were
	// revoked are not counted: they are gone on purpose and do not return.
	BrakePercent int
	// Tick is how often seats are looked at. Default 250 ms.
	Tick time.Duration

	alert atomic.Pointer[string]
}

// brakeNodes is how many nodes must be gone before the brake is thought of:
// below it, a share of the fleet says nothing.
const brakeNodes = 3

// absence is a node seen without a session.
type absence struct {
	since    time.Time     // monotonic
	revision int64         // of the node's record then
	silent   time.Duration // how long it had been silent when its session ended
	cut      bool          // a revocation ended its session
}

// Alert says why voiding is held back, "" when it is not.
func (r *Reaper) Alert() string {
	if a := r.alert.Load(); a != nil {
		return *a
	}
	return ""
}

// Run takes seats back until ctx ends or leadership is lost.
func (r *Reaper) Run(ctx context.Context, lead *store.Leadership) error {
	gone := map[string]absence{}
	tick := time.NewTicker(cmp.Or(r.Tick, 250*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if r.View.Revision() < lead.Revision {
			continue // not yet our own reign's state
		}
		r.sweep(ctx)
		r.look(gone)
		if r.braked(gone) {
			continue
		}
		if err := r.reap(ctx, lead, gone); err != nil {
			if errors.Is(err, context.Canceled) {
				return err
			}
			r.Log.Warn("take seats back", "error", err)
		}
	}
}

// look starts a timer for every node without a session, and drops those of
// nodes that came back.
func (r *Reaper) look(gone map[string]absence) {
	nodes, _ := r.View.Nodes()
	now := time.Now()
	there := map[string]bool{}
	for _, n := range nodes {
		there[n.Node.ID] = true
		a, known := gone[n.Node.ID]
		switch {
		case n.Session != nil:
			delete(gone, n.Node.ID)
		case !known || a.revision != n.Node.Revision:
			gone[n.Node.ID] = absence{since: now, revision: n.Node.Revision, silent: r.silence(&n.Node), cut: n.Node.SessionCut}
		}
	}
	// A plan that was under way while a node was removed leaves a seat there.
	for _, node := range r.View.Unknown() {
		there[node] = true
		if a, known := gone[node]; !known || a.revision != 0 {
			gone[node] = absence{since: now}
		}
	}
	maps.DeleteFunc(gone, func(node string, _ absence) bool { return !there[node] })
}

// silence is how long a node had been silent when its session ended.
func (r *Reaper) silence(n *ares.Node) time.Duration {
	if n.SessionCut {
		return 0 // a renewal may have been acknowledged the moment before
	}
	return cmp.Or(n.SessionTTL, r.TTL)
}

// braked holds voiding back while too many nodes are gone at once: that is
// more likely a cut network than so many dead machines.
func (r *Reaper) braked(gone map[string]absence) bool {
	nodes, _ := r.View.Nodes()
	lost := 0                   // gone with something to take back; a node long empty is no news
	for node, a := range gone { // order-free: a count
		if a.cut {
			continue // on purpose; it is none of those known either
		}
		entries, _, _ := r.View.SeatsOn(node)
		if slices.ContainsFunc(entries, func(e *Entry) bool { return len(unsettledOn(e, node)) > 0 }) {
			lost++
		}
	}
	known := len(nodes) - len(gone) + lost
	if lost < brakeNodes || r.BrakePercent >= 100 || lost*100 <= r.BrakePercent*known {
		if r.alert.Swap(nil) != nil {
			r.Log.Info("enough nodes are back: taking seats back again")
		}
		return false
	}
	msg := fmt.Sprintf("%d of %d nodes are gone with jobs of theirs, more than %d %%: the jobs are not reassigned until some return, or sessions.brake_percent is raised", lost, known, r.BrakePercent)
	if r.alert.Swap(&msg) == nil {
		r.Log.Error("taking seats back is held", "why", msg)
	}
	return true
}

// reap voids every seat whose node has been away for long enough: the session
// was already silent for its TTL when it ended, so lost_after − TTL is left; of a
// session that was cut, all of lost_after.
func (r *Reaper) reap(ctx context.Context, lead *store.Leadership, gone map[string]absence) error {
	for node, a := range gone { // order-free: each seat is voided by itself
		entries, _, _ := r.View.SeatsOn(node)
		for _, e := range entries {
			if time.Since(a.since) < max(e.Job.LostAfter()-a.silent, 0) {
				continue
			}
			for _, ref := range unsettledOn(e, node) {
				// gofail: var reaperBeforeVoid struct{}
				err := r.Store.Void(ctx, lead, ref, a.revision, r.Now())
				switch {
				case errors.Is(err, context.Canceled):
					return err
				case ares.CodeOf(err) == ares.Conflict: // it changed, or the node is back: look again
				case err != nil:
					r.Log.Warn("take a seat back", "job", ref.Job, "node", node, "error", err) // the others must not wait for it
				default:
					r.Log.Warn("seat taken back", "job", ref.Job, "rank", ref.Rank, "node", node, "fence", ref.Fence)
				}
			}
		}
	}
	return nil
}

func unsettledOn(e *Entry, node string) []store.SeatRef {
	var out []store.SeatRef
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		for k := range a.Seats {
			if h := &a.Seats[k]; h.Node == node && !h.State.Settled() {
				out = append(out, store.SeatRef{Job: e.Job.ID, Fence: a.Fence, Rank: h.Rank, Node: node})
			}
		}
	}
	return out
}
