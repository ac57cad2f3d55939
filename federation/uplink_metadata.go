package federation

import (
	"maps"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/metadata"
)

// DescribeEvery is the shortest time between two descriptions of a member: every member and the hub write each of them.
const DescribeEvery = time.Minute

// The method `describe` sends what this cluster says about itself, if it says something new.
func (l *link) describe() error {
	if l.u.Describe == nil || time.Since(l.describedAt) < l.u.DescribeEvery {
		return nil
	}
	l.describedAt = time.Now()
	made := l.u.Describe()
	if made == nil || string(made) == l.described {
		return nil
	}
	// The revision is read after the description was made, so a later description never has a lower one. Two descriptions of one
	// session must not have the same one either: then the later one waits. A session begins with a write, so it has higher ones.
	_, revision, err := l.u.Store.Identity(l.ctx)
	if err != nil || revision == l.describedOf {
		return err
	}
	l.described, l.describedOf = string(made), revision
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Description{Description: &apipb.MemberDescription{Revision: revision, Description: made}}})
	return nil
}

// The method `keepMetadata` merges what the hub says about clusters into the copy of this cluster.
func (l *link) keepMetadata(m *apipb.MetadataNews) error {
	return mergeMetadata(l.ctx, l.u.Store, l.member.HubStore, decodeMetadata(m.GetEntries()))
}

// The method `copies` returns what this cluster keeps of the hub's words, for the hello to a hub that asks.
func (l *link) copies() ([][]*apipb.MetadataEntry, error) {
	list, err := l.u.Store.ClusterMetadata(l.ctx, l.member.HubStore)
	if err != nil {
		return nil, err
	}
	kept := metadataOf(list)
	maps.DeleteFunc(kept, func(key metadata.Key, _ metadata.Entry) bool { return !key.ByHub })
	return encodeMetadata(kept), nil
}
