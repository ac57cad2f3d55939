package federation

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// A hub that is restored from a backup must ask every cluster that may own a job, and the backup knows only those that had
// joined before. So members keep copies of the roster, and a cluster gets its first job only after its name is stored
// outside the hub (F6).
//
// Invariant: if a cluster is Known, then its entry is stored in history, or in a member that was Known before it, or it was
// the oldest member when no member was Known. So the clusters that joined after a backup form a chain of entries which
// begins in a cluster of the backup, or in history.

// setRoster takes over the clusters as the hub's records have them now. The caller holds the term's lock.
func (t *term) setRoster(list []store.Cluster, revision int64) {
	entries := store.RosterOf(list)
	if slices.Equal(entries, t.roster.Clusters) {
		return
	}
	t.roster = &store.Roster{Hub: t.id.Store, Version: revision, Clusters: entries}
	wake(t.rosterNews)
}

// tellRoster sends the roster to the members that were not told this version.
func (t *term) tellRoster() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions { // order-free: sessions are independent
		if s.open && s.told != t.roster && t.roster.Version > 0 {
			s.told = t.roster
			s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Roster{Roster: encodeRoster(t.roster)}})
		}
	}
}

// The method `storedRoster` handles a member's acknowledgement of a roster.
func (s *session) storedRoster(m *apipb.RosterAcknowledgement) {
	s.t.mu.Lock()
	if s.told != nil && s.told.Version == m.GetVersion() {
		s.stored = s.told
	}
	s.t.mu.Unlock()
	wake(s.t.changed)
}

// The method `recordRosters` writes the roster into history after each change. A restored hub that asks does not: history
// may know more clusters than its backup.
func (t *term) recordRosters(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.rosterNews:
		}
		t.mu.Lock()
		roster, due := t.roster, t.asking == nil && t.roster.Version > 0
		t.mu.Unlock()
		if !due {
			continue
		}
		if err := t.RecordRoster(ctx, roster); err != nil {
			t.Log.Warn("the roster was not written to history, and is written again", "error", err)
			if !pause.For(ctx, t.Interval) {
				return
			}
			wake(t.rosterNews)
			continue
		}
		t.mu.Lock()
		t.recorded = roster
		t.mu.Unlock()
		wake(t.changed)
	}
}

// The method `vouch` lets clusters get jobs whose names are now stored outside the hub.
func (t *term) vouch(ctx context.Context) error {
	stored, waiting := t.storedOutside()
	for _, e := range stored {
		_, err := t.Store.UpdateCluster(ctx, e.Name, func(c *store.Cluster) error {
			c.Known = c.Known || c.MayOwn() && c.Since == e.Since
			return nil
		})
		if err != nil {
			return err
		}
		t.Log.Info("a cluster can get jobs: its name is stored outside the hub", "cluster", e.Name)
		t.mu.Lock()
		t.outdated = true
		t.mu.Unlock()
		wake(t.changed)
	}
	if text := strings.Join(waiting, ", "); text != t.unlisted {
		if t.unlisted = text; text != "" {
			t.Log.Info("clusters get no jobs until another cluster or history has stored their names", "clusters", text)
		}
	}
	return nil
}

// The method `storedOutside` returns the clusters that have become Known, and the names of those that have not.
func (t *term) storedOutside() (stored []store.RosterEntry, waiting []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var unknown []store.RosterEntry
	for _, e := range t.roster.Clusters {
		if c := t.clusters[e.Name]; !c.Known {
			unknown = append(unknown, e)
		}
	}
	if len(unknown) == 0 {
		return nil, nil
	}
	if t.RecordRoster == nil && len(unknown) == len(t.roster.Clusters) {
		// Nobody can keep the name of the first member.
		return []store.RosterEntry{slices.MinFunc(unknown, func(a, b store.RosterEntry) int {
			return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Name, b.Name))
		})}, nil
	}
	kept := t.keptOutside()
	for _, e := range unknown {
		if kept[e] {
			stored = append(stored, e)
		} else {
			waiting = append(waiting, e.Name)
		}
	}
	return stored, waiting
}

// keptOutside returns the entries that history or a Known member has. The caller holds the term's lock. Most members have
// acknowledged the same roster, so few are looked at.
func (t *term) keptOutside() map[store.RosterEntry]bool {
	rosters := map[*store.Roster]bool{}
	if t.recorded != nil {
		rosters[t.recorded] = true
	}
	for name, s := range t.sessions { // order-free: a set
		if c := t.clusters[name]; c.Known && c.MayOwn() && s.stored != nil {
			rosters[s.stored] = true
		}
	}
	kept := map[store.RosterEntry]bool{}
	for r := range rosters { // order-free: a set
		for _, e := range r.Clusters {
			kept[e] = true
		}
	}
	return kept
}

// The method `adopt` records the clusters that this restored hub does not know and that an answer names. It returns true if
// there were any: then the clusters must be read again.
func (t *term) adopt(ctx context.Context) (bool, error) {
	found := map[string]store.RosterEntry{}
	t.mu.Lock()
	for _, s := range t.sessions { // order-free: the latest membership wins
		if !s.identified {
			continue
		}
		for _, e := range decodeRoster("", s.info.GetRoster()).Clusters {
			c, known := t.clusters[e.Name]
			if known && c.Has(e) || !store.ValidClusterName(e.Name) {
				continue
			}
			if was, twice := found[e.Name]; !twice || was.Since < e.Since {
				found[e.Name] = e
			}
		}
	}
	t.mu.Unlock()
	for _, e := range found { // order-free: clusters are independent
		if err := t.Store.AdoptCluster(ctx, e, t.Now()); err != nil {
			return false, err
		}
		t.Log.Warn("the restored hub has learned of a cluster that its backup does not know, and waits for it too", "cluster", e.Name)
	}
	if len(found) > 0 {
		t.mu.Lock()
		t.outdated = true
		t.mu.Unlock()
		wake(t.changed)
	}
	return len(found) > 0, nil
}

// The method `keepRoster` stores the hub's roster, and acknowledges it.
func (l *link) keepRoster(m *apipb.Roster) error {
	if err := l.u.Store.PutRoster(l.ctx, decodeRoster(l.member.HubStore, m)); err != nil {
		return err
	}
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Roster{Roster: &apipb.RosterAcknowledgement{Version: m.GetVersion()}}})
	return nil
}

// The method `roster` returns the roster for the hello to a hub that asks. It is nil if the member has none of this hub.
func (l *link) roster() (*apipb.Roster, error) {
	r, err := l.u.Store.Roster(l.ctx)
	if err != nil || r == nil || r.Hub != l.member.HubStore {
		return nil, err
	}
	return encodeRoster(r), nil
}

func encodeRoster(r *store.Roster) *apipb.Roster {
	m := &apipb.Roster{Version: r.Version}
	for _, e := range r.Clusters {
		m.Clusters = append(m.Clusters, &apipb.RosterEntry{Name: e.Name, StoreId: e.Store, Since: e.Since, CertifiedFrom: e.CertifiedFrom})
	}
	return m
}

func decodeRoster(hub string, m *apipb.Roster) *store.Roster {
	r := &store.Roster{Hub: hub, Version: m.GetVersion()}
	for _, e := range m.GetClusters() {
		r.Clusters = append(r.Clusters, store.RosterEntry{Name: e.GetName(), Store: e.GetStoreId(), Since: e.GetSince(), CertifiedFrom: e.GetCertifiedFrom()})
	}
	return r
}
