package metadata

import (
	"cmp"
	"maps"
)

// Version orders the states of one entry. A writer raises the revision with every change, and a restore of its store raises the
// revision further. A new store under the name of a cluster begins with low revisions, so the incarnation is compared first.
type Version struct {
	Incarnation int64 // higher for each later membership of the cluster; 0 if the hub has written the entry
	Revision    int64 // of the writer's store
}

// Compare returns -1, 0 or 1 if the version is lower than, equal to or higher than the other.
func (v Version) Compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Incarnation, other.Incarnation), cmp.Compare(v.Revision, other.Revision))
}

// Key names an entry: a cluster, and who says something about it.
type Key struct {
	Cluster string
	ByHub   bool // otherwise the cluster itself says it
}

// Entry is what one writer says about one cluster. This package does not interpret the value.
type Entry struct {
	Version Version
	Value   string
	Seal    string // proves who has written the value
}

// compare orders entries. The version decides. A writer never gives one version to two values, but a merge must not
// depend on its order even if a writer does, so the other fields decide between equal versions.
func (e Entry) compare(other Entry) int {
	return cmp.Or(e.Version.Compare(other.Version), cmp.Compare(e.Value, other.Value), cmp.Compare(e.Seal, other.Seal))
}

// Map has all entries that one copy knows. The zero value is empty and can be merged.
type Map map[Key]Entry

// Merge returns the join of two maps: of each entry, the higher of its two states. It changes neither map. Merge is
// commutative, associative and idempotent, and its result is at least as high as both maps.
func (m Map) Merge(other Map) Map {
	out := make(Map, max(len(m), len(other)))
	maps.Copy(out, m)
	maps.Copy(out, other.NewerThan(m))
	return out
}

// NewerThan returns the entries that are higher than those of the other map, or that it lacks. Merging them into the other map
// has the same result as merging the whole map, so only they need to be sent or written.
func (m Map) NewerThan(other Map) Map {
	out := Map{}
	for key, e := range m {
		if theirs, known := other[key]; !known || theirs.compare(e) < 0 {
			out[key] = e
		}
	}
	return out
}
