package federation

import (
	"context"
	"errors"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// dropSilent ends the sessions that have missed their heartbeats. A heartbeat that arrives later on such a session is not
// answered (F11): the member must say hello first.
func (t *term) dropSilent() {
	var lost []string
	defer func() {
		for _, name := range lost {
			t.reachable(name, false)
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.clusters { // order-free: clusters are independent
		s := t.sessions[name]
		switch {
		case s == nil:
			at, ok := t.unheard[name]
			if !ok {
				t.unheard[name] = time.Now() // a new leader counts from its beginning
			} else if c := t.clusters[name]; !t.lost[name] && c.MayOwn() && time.Since(at) >= grant.Missed*t.Heartbeat {
				lost = append(lost, name)
			}
		case time.Since(s.heard) >= grant.Missed*t.Heartbeat:
			s.end(ares.Errorf(ares.Unavailable, "the cluster has missed %d heartbeats: it must say hello again", grant.Missed))
			s.open = false
		}
	}
}

// rememberAfter is the number of heartbeats after which the hub writes the revisions in them. A copy of a member's store that says
// hello to the next leader is compared with what was written.
const rememberAfter = 5

// The method `rememberRevisions` writes how far the stores of the members have got. A member whose store does not change costs nothing.
func (t *term) rememberRevisions(ctx context.Context) error {
	if time.Since(t.remembered) < rememberAfter*t.Heartbeat {
		return nil
	}
	t.remembered = time.Now()
	t.mu.Lock()
	type seen struct {
		store    string
		revision int64
	}
	heard := map[string]seen{}
	for name := range t.clusters { // order-free: clusters are independent
		c := t.clusters[name]
		if revision := t.revisions[c.Store]; revision > c.SeenRevision {
			heard[name] = seen{c.Store, revision}
		}
	}
	t.mu.Unlock()
	var errs []error
	for name, last := range heard {
		_, err := t.Store.UpdateCluster(ctx, name, func(c *store.Cluster) error {
			if c.Store == last.store {
				c.SeenRevision = max(c.SeenRevision, last.revision)
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// heardRevision returns the highest revision of a store that its heartbeats have named, or 0.
func (t *term) heardRevision(store string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revisions[store]
}

// The method `silence` returns how long the hub has not heard a cluster. The clock of package time may stop while the hub's machine
// is suspended. Then the hub counts less time than the cluster does, and takes jobs later, which is safe.
func (t *term) silence(cluster string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[cluster]; s != nil && s.ctx.Err() == nil {
		return time.Since(s.heard)
	}
	if at, ok := t.unheard[cluster]; ok {
		return time.Since(at)
	}
	return 0
}

// The method `fence` takes jobs with on_partition: fence from clusters that were silent for too long (F11). The cluster has
// stopped these jobs by then. Jobs of clusters that were declared dead are taken too.
func (t *term) fence(ctx context.Context) error {
	t.Hub.mu.Lock()
	var bound []*ares.Grant
	for _, g := range t.grants { // order-free: jobs are independent
		if g.State == ares.GrantBound {
			bound = append(bound, g)
		}
	}
	t.Hub.mu.Unlock()
	var errs []error
	for _, g := range bound {
		why := t.takeBackReason(g)
		if why == "" {
			continue
		}
		err := t.Store.Regrant(ctx, t.lead, nil, store.Regrant{
			Job: g.Job, Old: g.Epoch, To: store.RegrantReleased, Cluster: g.Cluster, Why: why, At: t.Now(),
		})
		switch {
		case err != nil:
			errs = append(errs, err)
		default:
			t.Log.Warn("a job was taken from a cluster", "job", g.Job, "cluster", g.Cluster, "epoch", g.Epoch, "reason", why)
		}
	}
	return errors.Join(errs...)
}

// takeBackReason says why a bound job is taken from its owner now, or "" if it is not.
func (t *term) takeBackReason(g *ares.Grant) string {
	t.mu.Lock()
	c, known := t.clusters[g.Cluster]
	t.mu.Unlock()
	if known && c.Decided == store.ClusterDead && c.Incarnation == g.Incarnation {
		return "cluster " + g.Cluster + " was declared dead"
	}
	e := t.view.Job(g.Job)
	if e == nil {
		return ""
	}
	if after, fenced := fencedAfter(e.Job); fenced && grant.IsLost(t.silence(g.Cluster), after) {
		return "cluster " + g.Cluster + " was silent for " + after.String()
	}
	return ""
}

// fencedAfter returns the silence of a cluster after which a job is taken from it, and false if the job stays there.
func fencedAfter(j *ares.Job) (time.Duration, bool) {
	p := j.Placement()
	after := time.Duration(p.ClusterLostAfterSeconds) * time.Second
	return grant.ClusterLostAfter(after, j.LostAfter()+j.Grace()), p.OnPartition == ares.PartitionFence
}
