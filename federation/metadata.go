package federation

import (
	"context"
	"crypto/hmac"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/metadata"
	"github.com/ares-scheduler/ares/store"
)

// What is said about clusters is for users and for a restored hub, and no decision of a running hub depends on it. So it is not
// agreed on: the hub says what its record of a cluster says, the cluster says what it has, and everybody keeps the last word of
// each that it has heard. This is the least that lets every server of every cluster list the clusters while the hub is silent,
// and lets a restored hub learn from any one of its members what its administrators wrote after the backup.
//
//   - The hub's word is a function of its record, so the hub stores nothing more. Its version is the revision of the record: a
//     restore raises revisions. The word of a cluster has a revision of the cluster's own store, and the hub stores it.
//   - Words travel whole, to every member: clusters are few, and a word is small. A session begins with all of them, so nothing is
//     acknowledged: what is lost with one session comes with the next.
//   - A restored hub merges the copies in the answers of all members before it recalls anything. It takes only words with its own
//     seal, because a job that must stay in a region trusts the hub's word, not a cluster's.
//   - Health and capacity go the same way, as coarse as a list shows them. What the hub schedules by is the summary, and who may own
//     jobs is decided by records and rosters.

// maxNewsBytes is about how much metadata one message has. A single word may be larger: tenants can be many.
const maxNewsBytes = 256 << 10

// maxDescription is the largest size of what a cluster says about itself.
const maxDescription = 32 << 10

// maxNewsEntries is the number of entries that one message may have.
const maxNewsEntries = 1000

// decodeMetadata returns the entries of a message. Entries of a kind that this version does not know are left out.
func decodeMetadata(list []*apipb.MetadataEntry) metadata.Map {
	out := metadata.Map{}
	for _, m := range list {
		key := metadata.Key{Cluster: m.GetCluster(), ByHub: len(m.GetRecord()) > 0}
		value := m.GetRecord()
		if !key.ByHub {
			value = m.GetDescription()
		}
		if len(value) > 0 && store.ValidClusterName(key.Cluster) {
			e := metadata.Entry{Version: metadata.Version{Incarnation: m.GetIncarnation(), Revision: m.GetRevision()}, Value: string(value), Seal: string(m.GetSeal())}
			out = out.Merge(metadata.Map{key: e})
		}
	}
	return out
}

// encodeMetadata returns entries in parts, each for one message.
func encodeMetadata(entries metadata.Map) (parts [][]*apipb.MetadataEntry) {
	var part []*apipb.MetadataEntry
	size := 0
	for key, e := range entries { // order-free: entries are independent
		m := &apipb.MetadataEntry{Cluster: key.Cluster, Incarnation: e.Version.Incarnation, Revision: e.Version.Revision, Seal: []byte(e.Seal)}
		if key.ByHub {
			m.Record = []byte(e.Value)
		} else {
			m.Description = []byte(e.Value)
		}
		if len(part) > 0 && size+len(e.Value) > maxNewsBytes || len(part) == maxNewsEntries {
			parts, part, size = append(parts, part), nil, 0
		}
		part, size = append(part, m), size+len(e.Value)
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// metadataOf returns the entries that a store has.
func metadataOf(list []store.ClusterMetadata) metadata.Map {
	out := make(metadata.Map, len(list))
	for _, e := range list {
		out[metadata.Key{Cluster: e.Cluster, ByHub: e.ByHub}] = metadata.Entry{
			Version: metadata.Version{Incarnation: e.Incarnation, Revision: e.Revision}, Value: e.Value, Seal: e.Seal,
		}
	}
	return out
}

// mergeMetadata merges entries into those that a store has, and writes what changes.
func mergeMetadata(ctx context.Context, s *store.Store, hub string, entries metadata.Map) error {
	return s.ChangeClusterMetadata(ctx, hub, func(was []store.ClusterMetadata) (changed []store.ClusterMetadata) {
		for key, e := range entries.NewerThan(metadataOf(was)) { // order-free: entries are independent
			changed = append(changed, store.ClusterMetadata{
				Cluster: key.Cluster, ByHub: key.ByHub, Incarnation: e.Version.Incarnation, Revision: e.Version.Revision, Value: e.Value, Seal: e.Seal,
			})
		}
		return changed
	})
}

// These are the entries that a hub's leader knows. They never change; what the leader learns makes new ones.
type clusterWords struct{ metadata.Map }

// The method `learn` merges entries into those of the leader. The caller holds the term's lock.
func (t *term) learn(entries metadata.Map) { t.words = &clusterWords{t.words.Merge(entries)} }

// The method `describe` takes over what the hub's records of clusters say now. The caller holds the term's lock. A record changes
// with each session; only what members keep of it counts.
func (t *term) describe(list []store.Cluster) error {
	changed := metadata.Map{}
	for i := range list {
		c, key := &list[i], metadata.Key{Cluster: list[i].Name, ByHub: true}
		if t.clusters[c.Name].Revision == c.Revision {
			continue
		}
		value, err := store.EncodeClusterCopy(c)
		if err != nil {
			return err
		}
		if t.words.Map[key].Value != value {
			changed[key] = metadata.Entry{Version: metadata.Version{Revision: c.Revision}, Value: value, Seal: t.seal(c.Name, c.Revision, value)}
		}
	}
	if len(changed) > 0 {
		t.learn(changed)
	}
	return nil
}

// The method `seal` returns what proves that this hub has written an entry, or "" if the hub has no seals.
func (t *term) seal(cluster string, revision int64, value string) string {
	if t.Seal == nil {
		return ""
	}
	return string(t.Seal(cluster, revision, value))
}

// The method `tellMetadata` sends to each member the entries that it was not told in its session.
func (t *term) tellMetadata() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions { // order-free: sessions are independent
		if !s.open || s.words == t.words {
			continue
		}
		for _, part := range encodeMetadata(t.words.NewerThan(s.words.Map)) {
			s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Metadata{Metadata: &apipb.MetadataNews{Entries: part}}})
		}
		s.words = t.words
	}
}

// The method `describe` stores what the member says about itself. A repetition is ignored, as if it were lost.
func (s *session) describe(m *apipb.MemberDescription) error {
	key, value := metadata.Key{Cluster: s.hello.Cluster}, string(m.GetDescription())
	if err := proto.Unmarshal(m.GetDescription(), &apipb.ClusterDescription{}); err != nil || value == "" || len(value) > maxDescription {
		s.t.Log.Warn("a cluster describes itself in a way that the hub cannot read", "cluster", key.Cluster, "bytes", len(value), "error", err)
		return nil
	}
	s.t.mu.Lock()
	was, since := s.t.words.Map[key], s.t.clusters[key.Cluster].Since
	s.t.mu.Unlock()
	if was.Value == value && was.Version.Incarnation == since {
		return nil
	}
	entries := metadata.Map{key: {Version: metadata.Version{Incarnation: since, Revision: m.GetRevision()}, Value: value}}
	if err := mergeMetadata(s.ctx, s.t.Store, s.t.id.Store, entries); err != nil {
		return err
	}
	s.t.mu.Lock()
	s.t.learn(entries)
	s.t.mu.Unlock()
	wake(s.t.changed)
	return nil
}

// The method `recall` takes over what administrators wrote about clusters after the backup of this restored hub, as far as the
// copies in the answers say. All members have answered, so no copy comes later. Each record is written, also those that stay as
// they are: so the hub's next words are later than those of all copies.
func (t *term) recall(ctx context.Context) error {
	copies := metadata.Map{}
	t.mu.Lock()
	for _, s := range t.sessions { // order-free: a merge
		if s.identified {
			copies = copies.Merge(s.copies)
		}
	}
	t.mu.Unlock()
	list, err := t.Store.Clusters(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		kept := store.Cluster{}
		if e, known := copies[metadata.Key{Cluster: list[i].Name, ByHub: true}]; known {
			if kept, err = store.DecodeClusterCopy(list[i].Name, e.Value); err != nil {
				t.Log.Warn("the copies of what the hub wrote about a cluster cannot be read, so the record in the backup counts", "cluster", list[i].Name, "error", err)
				kept = store.Cluster{}
			}
		}
		if kept.Described > list[i].Described {
			t.Log.Info("the restored hub recalls what administrators wrote about a cluster after the backup", "cluster", list[i].Name)
		}
		if _, err = t.Store.UpdateCluster(ctx, list[i].Name, func(c *store.Cluster) error {
			c.Recall(&kept)
			return nil
		}); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.outdated = true
	t.mu.Unlock()
	return nil
}

// The method `ownWords` returns the entries that this hub, or the hub before its restore, has sealed.
func (t *term) ownWords(entries metadata.Map) metadata.Map {
	maps.DeleteFunc(entries, func(key metadata.Key, e metadata.Entry) bool {
		return !key.ByHub || !hmac.Equal([]byte(e.Seal), []byte(t.seal(key.Cluster, e.Version.Revision, e.Value)))
	})
	return entries
}
