package metadata

import (
	"cmp"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Version orders the states of one entry. A writer raises the revision with every change. A restore from a backup lowers
// the revision of the writer's store, so the incarnation counts restores and is compared first.
type Version struct {
	Incarnation int64 // restores of the writer's store
	Revision    int64 // of the writer's store
}

// Compare returns -1, 0 or 1 if the version is lower than, equal to or higher than the other.
func (v Version) Compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Incarnation, other.Incarnation), cmp.Compare(v.Revision, other.Revision))
}

// Entry is the state of one cluster's metadata.
type Entry struct {
	Version Version
	// Gone is true after the cluster has left. The entry stays, because a copy that has not heard of it would otherwise
	// bring the cluster back.
	Gone bool
	// Value is the encoded metadata. This package does not interpret it.
	Value string
}

// compare orders entries. The version decides. A writer never gives one version to two values, but a merge must not
// depend on its order even if a writer does, so the other fields decide between equal versions.
func (e Entry) compare(other Entry) int {
	return cmp.Or(e.Version.Compare(other.Version), compareBool(e.Gone, other.Gone), cmp.Compare(e.Value, other.Value))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Map has the entries of all known clusters, by name. The zero value is empty and can be merged, but Put needs a Map that
// was made.
type Map map[string]Entry

// Merge returns the join of two maps: for each cluster, the higher of its two entries. It changes neither map. Merge is
// commutative, associative and idempotent, and its result is at least as high as both maps.
func (m Map) Merge(other Map) Map {
	out := make(Map, max(len(m), len(other)))
	maps.Copy(out, m)
	for name, e := range other {
		if mine, known := out[name]; !known || mine.compare(e) < 0 {
			out[name] = e
		}
	}
	return out
}

// Put writes the entry of one cluster. Only the writer of the entry calls it. A version that is not higher than the
// current one is an error, unless it is a repetition: another writer uses the name, or the writer's store was
// replaced by an older copy.
func (m Map) Put(name string, e Entry) error {
	switch mine, known := m[name]; {
	case !known || mine.Version.Compare(e.Version) < 0:
		m[name] = e
	case mine != e:
		return ares.Errorf(ares.Conflict, "the metadata of cluster %q has version %d.%d, and %d.%d is not higher: check that no second cluster uses this name, and that the store was not replaced by a copy without `ares restore`",
			ares.Clip(name), mine.Version.Incarnation, mine.Version.Revision, e.Version.Incarnation, e.Version.Revision)
	}
	return nil
}

// AtLeast reports whether the map knows everything that the other map knows. It is the order of which Merge is the
// join.
func (m Map) AtLeast(other Map) bool {
	for name, e := range other {
		if mine, known := m[name]; !known || mine.compare(e) < 0 {
			return false
		}
	}
	return true
}

// Versions returns the version of every entry. A copy sends its versions to learn what it lacks.
func (m Map) Versions() map[string]Version {
	out := make(map[string]Version, len(m))
	for name, e := range m {
		out[name] = e.Version
	}
	return out
}

// NewerThan returns the entries that a copy with the given versions lacks. Merging them into that copy has the same
// result as merging the whole map, if every writer gives each version to one value only.
func (m Map) NewerThan(versions map[string]Version) Map {
	out := Map{}
	for name, e := range m {
		if known, ok := versions[name]; !ok || known.Compare(e.Version) < 0 {
			out[name] = e
		}
	}
	return out
}

// Names returns the clusters that have not left, sorted.
func (m Map) Names() []string {
	var out []string
	for name, e := range m {
		if !e.Gone {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
