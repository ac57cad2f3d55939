package lifecycle

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
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// Reaper voids the seats on lost nodes that fence themselves. On other nodes, no time proves that a job has ended. The Reaper looks for seats on nodes without a session and does not react to the
// end of a session. So nothing is missed when the leader changes. Each new leader's Reaper starts its own timers.
type Reaper struct {
	Store *store.Store
	View  *cache.View
	// TTL is the session TTL for nodes whose record does not have one. When a session expires, its node has already
	// been silent for the TTL.
	TTL time.Duration
	Now func() time.Time
	Log *slog.Logger
	// The Reaper stops voiding seats when too many nodes with jobs are lost. It stops when more than BrakePercent
	// percent of the nodes are lost. This applies only if at least brakeNodes nodes are lost. If BrakePercent is 100,
	// voiding is never stopped. Revoked nodes are not counted, because they were removed on purpose.
	BrakePercent int
	// Tick is the longest time between two checks of the seats. Default 250 ms. The end of a session and the end of a wait
	// are noticed immediately, if the view feeds the Reaper.
	Tick time.Duration

	alert atomic.Pointer[string]
	ended chan struct{} // holds one token when a session has ended
}

// Feed makes the view tell the Reaper when a session ends. The Reaper's timer for the node then starts without the delay
// of a tick. Feed must be called before the view runs.
func (r *Reaper) Feed() {
	r.ended = make(chan struct{}, 1)
	r.View.Feed(func(b ares.Batch) {
		if !slices.ContainsFunc(b.Events, func(e ares.Event) bool { return e.Gone.Kind == ares.KindSession }) {
			return
		}
		select {
		case r.ended <- struct{}{}:
		default:
		}
	})
}

// brakeNodes is the smallest number of lost nodes at which the Reaper may stop voiding seats. With fewer lost
// nodes, a percentage of the cluster is not meaningful.
const brakeNodes = 3

// The type `absence` records that a node was seen without a session.
type absence struct {
	since    time.Time     // monotonic
	revision int64         // revision of the node's record at that time
	silent   time.Duration // how long the node had been silent when its session ended
	cut      bool          // the session was ended by a revocation
	unfenced bool          // the node does not fence itself, so its seats are not voided
}

// Alert returns why the Reaper has stopped voiding seats, or "" if it has not stopped.
func (r *Reaper) Alert() string {
	if a := r.alert.Load(); a != nil {
		return *a
	}
	return ""
}

// Run voids seats until ctx ends or leadership is lost.
func (r *Reaper) Run(ctx context.Context, lead *store.Leadership) error {
	gone := map[string]absence{}
	tick := cmp.Or(r.Tick, 250*time.Millisecond)
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ended: // never, if the view does not feed the Reaper
		case <-timer.C:
		}
		timer.Reset(tick)
		if r.View.Revision() < lead.Revision {
			continue // the view does not have the state of this term yet
		}
		r.sweep(ctx)
		r.look(gone)
		if r.braked(gone) {
			continue
		}
		next, err := r.reap(ctx, lead, gone)
		if err != nil {
			return err
		}
		timer.Reset(min(tick, next))
	}
}

// The method `look` starts a timer for each node without a session, and removes the timers of nodes that have a session
// again.
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
			gone[n.Node.ID] = absence{since: now, revision: n.Node.Revision, silent: r.silence(&n.Node), cut: n.Node.SessionCut, unfenced: !n.Node.SelfFencing()}
		}
	}
	// A plan that is committed while a node is being removed can leave a seat on that node.
	for _, node := range r.View.UnknownNodes() {
		there[node] = true
		if a, known := gone[node]; !known || a.revision != 0 {
			gone[node] = absence{since: now}
		}
	}
	maps.DeleteFunc(gone, func(node string, _ absence) bool { return !there[node] })
}

// The method `silence` returns how long a node had been silent when its session ended.
func (r *Reaper) silence(n *ares.Node) time.Duration {
	if n.SessionCut {
		return 0 // a renewal may have been acknowledged just before the revocation
	}
	return cmp.Or(n.SessionTTL, r.TTL)
}

// The method `braked` returns true if so many nodes are lost at once that no seats may be voided. When many nodes are
// lost at once, a network partition is more likely than so many failing machines.
func (r *Reaper) braked(gone map[string]absence) bool {
	nodes, _ := r.View.Nodes()
	lost := 0                   // lost nodes with seats on them; empty nodes do not count
	for node, a := range gone { // order-free: a count
		if a.cut || a.unfenced {
			continue // it was revoked on purpose, or its seats are not voided: it counts neither as lost nor as known
		}
		entries, _, _ := r.View.SeatsOn(node)
		if slices.ContainsFunc(entries, func(e *cache.Entry) bool { return len(cache.UnsettledOn(e, node)) > 0 }) {
			lost++
		}
	}
	known := len(nodes) - len(gone) + lost
	if lost < brakeNodes || r.BrakePercent >= 100 || lost*100 <= r.BrakePercent*known {
		if r.alert.Swap(nil) != nil {
			r.Log.Info("enough nodes have returned: seats on lost nodes are voided again")
		}
		return false
	}
	msg := fmt.Sprintf("%d of %d nodes are lost with jobs on them, more than %d %%: their jobs are not placed elsewhere until some nodes return, or sessions.brake_percent is raised", lost, known, r.BrakePercent)
	if r.alert.Swap(&msg) == nil {
		r.Log.Error("seats on lost nodes are not voided", "why", msg)
	}
	return true
}

// The method `reap` voids each seat whose node fences itself and has been lost for at least the job's lost_after. If a node's session
// expired, the node had already been silent for the TTL, so the method waits for lost_after − TTL. If the session was
// revoked, the method waits for the whole lost_after. The method returns the shortest wait that is left.
func (r *Reaper) reap(ctx context.Context, lead *store.Leadership, gone map[string]absence) (next time.Duration, err error) {
	next = time.Hour
	for node, a := range gone { // order-free: each seat is voided separately
		if a.unfenced {
			continue
		}
		entries, _, _ := r.View.SeatsOn(node)
		for _, e := range entries {
			unsettled := cache.UnsettledOn(e, node)
			if left := max(e.Job.LostAfter()-a.silent, 0) - time.Since(a.since); left > 0 {
				if len(unsettled) > 0 {
					next = min(next, left)
				}
				continue
			}
			for _, ref := range unsettled {
				// gofail: var reaperBeforeVoid struct{}
				err := r.Store.Void(ctx, lead, ref, a.revision, r.Now())
				switch {
				case errors.Is(err, context.Canceled):
					return next, err
				case ares.CodeOf(err) == ares.Conflict: // the seat changed or the node is back, so check again
				case err != nil:
					r.Log.Warn("void a seat", "job", ref.Job, "node", node, "error", err) // continue, because the other seats must not wait for this one
				default:
					r.Log.Warn("voided a seat on a lost node", "job", ref.Job, "rank", ref.Rank, "node", node, "fence", ref.Fence)
				}
			}
		}
	}
	return next, nil
}

// The method `sweep` removes the reservations that ended long ago.
func (r *Reaper) sweep(ctx context.Context) {
	for _, w := range r.View.Reservations() {
		if r.Now().Before(w.Until.Add(ares.ReservationKept)) {
			continue
		}
		if _, err := r.Store.DeleteReservation(ctx, w.Name, w.Revision); err != nil && ares.CodeOf(err) != ares.NotFound && ctx.Err() == nil {
			r.Log.Warn("remove an old reservation", "reservation", w.Name, "error", err)
		}
	}
}
