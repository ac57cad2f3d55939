package federation

import (
	"context"
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// The method `change` writes one decision of the rules.
func (t *term) change(ctx context.Context, asking *store.Asking, c *grant.Change, why string) error {
	r := store.Regrant{
		Job: c.Job, Old: c.Old, To: store.RegrantReleased, Epoch: c.Epoch, Cluster: c.Cluster, Incarnation: c.Incarnation,
		Exclude: c.Exclude, Run: c.Run, Why: why, At: t.Now(),
	}
	switch c.Do {
	case grant.Rebind:
		r.To = store.RegrantBound
	case grant.Commit:
		r.To = store.RegrantFinal
	case grant.Wait, grant.Lose, grant.Cancel: // the store decides between them by the job and its run
	}
	return t.Store.Regrant(ctx, t.lead, asking, r)
}

// The method `resolve` ends the time in which a restored hub asks its members (F6). It does nothing until every cluster of
// its own roster, and of the rosters in the answers, has answered or was declared dead. Then it writes what the answers say, and welcomes the members.
func (t *term) resolve(ctx context.Context) error {
	if adopted, err := t.adopt(ctx); adopted || err != nil {
		return err
	}
	t.mu.Lock()
	asking := t.asking
	var answers []grant.Hello
	var missing []string
	for name := range t.clusters { // order-free: sorted below
		c := t.clusters[name]
		s := t.sessions[name]
		switch {
		case s != nil && s.identified:
			answers = append(answers, s.hello)
		case c.HasJoined() && c.Decided != store.ClusterDead:
			missing = append(missing, name)
		}
	}
	t.mu.Unlock()
	if len(missing) > 0 {
		slices.Sort(missing)
		if text := strings.Join(missing, ", "); text != t.waitsFor {
			t.waitsFor = text
			t.Log.Warn("the restored hub waits for clusters: declare a cluster dead that will not return", "clusters", text)
		}
		return nil
	}
	snap, err := t.snapshot(ctx)
	if err != nil {
		return err
	}
	t.addOpenJobs(snap)
	for _, c := range snap.Resolve(answers) {
		if err = t.change(ctx, asking, &c, "the hub was restored from a backup, and no cluster has the job"); err != nil {
			return err
		}
	}
	if err = t.adoptLoans(ctx, asking); err != nil {
		return err
	}
	if err = t.recall(ctx); err != nil {
		return err
	}
	if err = t.Store.EndAsking(ctx, t.lead, asking); err != nil {
		return err
	}
	t.Log.Info("every cluster has answered the restored hub")
	t.mu.Lock()
	t.asking = nil
	wake(t.rosterNews)
	sessions := slices.Collect(maps.Values(t.sessions))
	t.mu.Unlock()
	for _, s := range sessions {
		s.handling.Lock()
		if !s.closed && s.identified && s.cookie == "" {
			err = s.welcome()
		}
		s.handling.Unlock()
		if err != nil {
			s.end(err)
		}
	}
	return nil
}

// addOpenJobs adds the jobs that have no grant and have not ended. After a restore, a member may have them.
func (t *term) addOpenJobs(snap *grant.Hub) {
	t.view.Search(func(j *ares.Job) bool { return j.ArrayOf == "" }, func(e *entry) bool {
		if _, granted := snap.Jobs[e.Job.ID]; !granted && !e.Run.Phase.Final() {
			snap.Jobs[e.Job.ID] = grant.Job{Once: e.Job.Mode == ares.AtMostOnce, Cancel: e.Run.Stop != nil}
		}
		return true
	})
}

// WaitsFor returns the clusters whose answer a restored hub still needs, or "" if it needs none or does not lead.
func (h *Hub) WaitsFor() string {
	t := h.term.Load()
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking == nil {
		return ""
	}
	var missing []string
	for name := range t.clusters { // order-free: sorted below
		c := t.clusters[name]
		if s := t.sessions[name]; (s == nil || !s.identified) && c.HasJoined() && c.Decided != store.ClusterDead {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return strings.Join(missing, ", ")
}
