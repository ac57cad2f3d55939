package federation

import (
	"context"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/store"
)

// refreshAfter is how long an offer that the Chooser made stays open without a claim. Then the Chooser decides again.
const refreshAfter = 15 * time.Second

// applyToChooser keeps the Chooser up to date. The view is locked while it runs.
func (h *Hub) applyToChooser(b ares.Batch) {
	if h.Chooser == nil {
		return
	}
	h.choosing.Lock()
	defer h.choosing.Unlock()
	b.At = h.Now()
	h.Chooser.Apply(b)
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Grant != nil:
			h.Chooser.SetGrant(e.Grant.Job, clustersOf(e.Grant), b.At)
		case e.Gone.Kind == ares.KindGrant:
			h.Chooser.ClearGrant(ares.JobID(e.Gone.ID), b.At)
		}
	}
}

func clustersOf(g *ares.Grant) []string {
	if g.State == ares.GrantBound {
		return []string{g.Cluster}
	}
	return g.Clusters
}

// showClusters passes the summaries that are new to the Chooser.
func (t *term) showClusters() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	for name := range t.clusters { // order-free: clusters are independent
		c, s := t.clusters[name], t.sessions[name]
		open := s != nil && s.open && c.Decided == store.ClusterReady && !c.Damped && c.Known
		was, known := t.shown[name]
		next := shownCluster{open: open, summary: was.summary, record: c.Revision}
		if s != nil {
			next.summary = s.decoded
		}
		if known && was == next {
			continue
		}
		t.shown[name] = next
		t.Chooser.SetCluster(choose.Cluster{Name: name, Region: c.Region, Open: open, Summary: priced(next.summary, &c)}, now)
	}
}

// shownCluster is what the Chooser was told of a cluster.
type shownCluster struct {
	open    bool
	summary *summary.Summary // as the cluster sent it
	record  int64            // revision of the cluster's record
}

// priced returns a summary with the prices that an administrator of the hub has set for the cluster.
func priced(s *summary.Summary, c *store.Cluster) *summary.Summary {
	if s == nil {
		return nil
	}
	return s.WithTerms(&summary.Terms{PriceMicros: c.Prices})
}

// chosen returns the offers and the stops that the Chooser decides on now.
func (t *term) chosen(now time.Time) ([]store.Offer, []ares.Stopping) {
	t.choosing.Lock()
	began := time.Now()
	t.showClusters()
	offers, more := t.Chooser.Decide(now)
	took, stops := time.Since(began), t.Chooser.Stops()
	t.choosing.Unlock()
	if t.Observe != nil {
		t.Observe(took)
	}
	if more {
		wake(t.changed)
	}
	var out []store.Offer
	for i := range offers {
		e := t.view.Job(offers[i].Job)
		if e == nil || !mayBeOffered(e) || t.grant(e.Job.ID) != nil {
			continue
		}
		names := slices.DeleteFunc(offers[i].Clusters(), func(name string) bool {
			t.mu.Lock()
			defer t.mu.Unlock()
			c, ok := t.clusters[name]
			return !ok || !IsAllowed(e.Job, &e.Run, &c)
		})
		if len(names) > 0 {
			out = append(out, store.Offer{Job: e.Job.ID, Clusters: names, RunRevision: e.Run.Revision, At: now})
		}
	}
	return out, stops
}

// offerChosen writes what the Chooser decided.
func (t *term) offerChosen(ctx context.Context) error {
	batch, stops := t.chosen(t.Now())
	if err := t.stopWaiting(ctx, stops); err != nil || len(batch) == 0 {
		return err
	}
	made, err := t.Store.Offer(ctx, t.lead, batch)
	t.choosing.Lock()
	defer t.choosing.Unlock()
	for i := range made { // before the view shows them, so that the next decision does not repeat them
		t.Chooser.SetGrant(made[i].Job, made[i].Clusters, t.Now())
	}
	return err
}

// stopWaiting ends jobs that no cluster will start. A job that got an offer or an owner meanwhile goes on.
func (t *term) stopWaiting(ctx context.Context, stops []ares.Stopping) error {
	for i := range stops {
		id := stops[i].Job
		if t.grant(id) != nil {
			continue
		}
		if _, err := t.Store.RequestStop(ctx, id, stops[i].Stop); err != nil && !isOutdated(err) {
			return err
		}
	}
	return nil
}

// decodeSummary reads a summary of a member. A summary of another version that cannot be read counts as none.
func (t *term) decodeSummary(cluster string, data []byte) *summary.Summary {
	s, err := summary.Decode(data)
	if err != nil {
		t.Log.Warn("the summary of a cluster cannot be read", "cluster", cluster, "error", err)
		return nil
	}
	return s
}
