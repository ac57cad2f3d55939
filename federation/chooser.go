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

// showClusters passes what is new about the clusters to the Chooser. The caller holds the lock `choosing`.
func (t *term) showClusters() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.clusters { // order-free: clusters are independent
		c := t.clusters[name]
		t.showCluster(&c, t.known(&c))
	}
}

// The method `known` returns what the leader knows of a cluster. The caller holds the term's lock.
func (t *term) known(c *store.Cluster) shownCluster {
	s := t.sessions[c.Name]
	out := shownCluster{record: c.Revision, summary: t.shown[c.Name].summary, closed: closedBy(c, s != nil && s.open, "to the hub")}
	if s != nil {
		out.summary = s.decoded
	}
	if t.asking != nil {
		out.closed = choose.Blocker{Kind: restored, Detail: "it gets no offers yet: the hub was restored from a backup and waits until every cluster has answered"}
	}
	return out
}

// knownHere returns what a server that does not lead the hub knows of a cluster, by the cluster's connection to it.
func (h *Hub) knownHere(c *store.Cluster) shownCluster {
	out := shownCluster{record: c.Revision}
	l := h.reads.link(c.Name)
	if l != nil {
		l.mu.Lock()
		out.summary = l.summary
		l.mu.Unlock()
	}
	out.closed = closedBy(c, l != nil && !c.Unreachable, "to this server of the hub")
	return out
}

// showCluster tells the Chooser what is known of a cluster, if that is new. The caller holds the lock `choosing`.
func (h *Hub) showCluster(c *store.Cluster, next shownCluster) {
	was, known := h.shown[c.Name]
	if known && (was == next || next.record < was.record) { // an earlier record is from a read that was overtaken
		return
	}
	h.shown[c.Name] = next
	h.Chooser.SetCluster(choose.Cluster{
		Name: c.Name, Region: c.Region, Open: next.closed == choose.Blocker{}, Closed: next.closed,
		Summary: priced(next.summary, c), LocalTenants: c.LocalTenants,
	}, h.Now())
}

// shownCluster is what the Chooser was told of a cluster.
type shownCluster struct {
	closed  choose.Blocker   // why the cluster gets no offers, empty if it gets them
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

// chosen returns the offers and the stops that the Chooser decides on now. The map has the offers with their costs.
func (t *term) chosen(now time.Time) (batch []store.Offer, quotes map[ares.JobID]choose.Offer, stops []ares.Stopping) {
	t.choosing.Lock()
	began := time.Now()
	t.showClusters()
	offers, more := t.Chooser.Decide(now)
	took := time.Since(began)
	stops = t.Chooser.Stops()
	t.choosing.Unlock()
	if t.Observe != nil {
		t.Observe(took)
	}
	if more {
		wake(t.changed)
	}
	quotes = make(map[ares.JobID]choose.Offer, len(offers))
	for i := range offers {
		e := t.view.Job(offers[i].Job)
		if e == nil || !mayBeOffered(e) || t.grant(e.Job.ID) != nil {
			continue
		}
		o := &offers[i]
		o.Candidates = slices.DeleteFunc(o.Candidates, func(k choose.Candidate) bool {
			t.mu.Lock()
			defer t.mu.Unlock()
			c, ok := t.clusters[k.Cluster]
			return !ok || !IsAllowed(e.Job, &e.Run, &c)
		})
		if len(o.Candidates) > 0 {
			batch = append(batch, store.Offer{Job: e.Job.ID, Clusters: o.Clusters(), RunRevision: e.Run.Revision, At: now})
			quotes[e.Job.ID] = *o
		}
	}
	return batch, quotes, stops
}

// offerChosen writes what the Chooser decided.
func (t *term) offerChosen(ctx context.Context) error {
	batch, quotes, stops := t.chosen(t.Now())
	if err := t.stopWaiting(ctx, stops); err != nil || len(batch) == 0 {
		return err
	}
	made, err := t.Store.Offer(ctx, t.lead, batch)
	t.mu.Lock()
	for i := range made { // before the members are told, so that the first claim finds the costs
		t.quoted[made[i].Job] = quotedOffer{made[i].Epoch, quotes[made[i].Job]}
	}
	t.mu.Unlock()
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
func (h *Hub) decodeSummary(cluster string, data []byte) *summary.Summary {
	s, err := summary.Decode(data)
	if err != nil {
		h.Log.Warn("the summary of a cluster cannot be read", "cluster", cluster, "error", err)
		return nil
	}
	return s
}
