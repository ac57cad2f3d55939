package metadata_test

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/ares-scheduler/ares/federation/metadata"
)

// drawEntry draws an entry with a small version, so that equal versions with different values occur too.
var drawEntry = rapid.Custom(func(t *rapid.T) metadata.Entry {
	return metadata.Entry{
		Version: metadata.Version{Incarnation: rapid.Int64Range(0, 2).Draw(t, "incarnation"), Revision: rapid.Int64Range(0, 3).Draw(t, "revision")},
		Value:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "value"),
		Seal:    rapid.SampledFrom([]string{"", "s"}).Draw(t, "seal"),
	}
})

var drawMap = rapid.Custom(func(t *rapid.T) metadata.Map {
	key := rapid.Custom(func(t *rapid.T) metadata.Key {
		return metadata.Key{Cluster: rapid.SampledFrom([]string{"ams", "fra", "iad"}).Draw(t, "cluster"), ByHub: rapid.Bool().Draw(t, "by the hub")}
	})
	return rapid.MapOfN(key, drawEntry, 0, 5).Draw(t, "entries")
})

// atLeast reports whether one map knows everything that the other one knows. It is the order of which Merge is the join.
func atLeast(m, other metadata.Map) bool { return len(other.NewerThan(m)) == 0 }

// TestLaws checks that Merge is a join: commutative, associative, idempotent, and the least map above both. A difference gives
// the same as the whole map.
func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawMap.Draw(t, "a"), drawMap.Draw(t, "b"), drawMap.Draw(t, "c")
		before := maps.Clone(a)
		ab := a.Merge(b)
		if !maps.Equal(a, before) {
			t.Fatalf("Merge changed its receiver: %v, was %v", a, before)
		}
		if ba := b.Merge(a); !maps.Equal(ab, ba) {
			t.Fatalf("not commutative: %v and %v", ab, ba)
		}
		if left, right := ab.Merge(c), a.Merge(b.Merge(c)); !maps.Equal(left, right) {
			t.Fatalf("not associative: %v and %v", left, right)
		}
		if twice := ab.Merge(b); !maps.Equal(twice, ab) {
			t.Fatalf("not idempotent: %v, then %v", ab, twice)
		}
		if !atLeast(ab, a) || !atLeast(ab, b) {
			t.Fatalf("not monotone: %v is not above %v and %v", ab, a, b)
		}
		if atLeast(c, a) && atLeast(c, b) && !atLeast(c, ab) {
			t.Fatalf("%v is above %v and %v, but not above their merge %v", c, a, b, ab)
		}
		if atLeast(a, b) && atLeast(b, a) && !maps.Equal(a, b) {
			t.Fatalf("%v and %v are above each other", a, b)
		}
		if part := a.Merge(b.NewerThan(a)); !maps.Equal(part, ab) {
			t.Fatalf("the difference gives %v, the whole map %v", part, ab)
		}
	})
}

// TestCopiesBecomeEqual lets three writers change their entries, replaces the store of one of them now and then, and sends whole
// maps and differences between copies in any order, repeatedly or never. After one last round of messages, all copies have
// the last word of every writer.
func TestCopiesBecomeEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const writers = 3
		key := func(writer int) metadata.Key { return metadata.Key{Cluster: fmt.Sprint(writer), ByHub: writer == 0} }
		copies, last := make([]metadata.Map, writers), make([]metadata.Entry, writers)
		for i := range copies {
			copies[i] = metadata.Map{}
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			from := rapid.IntRange(0, writers-1).Draw(t, "from")
			switch to := rapid.IntRange(0, writers-1).Draw(t, "to"); rapid.SampledFrom([]string{"write", "replace", "send", "difference"}).Draw(t, "what") {
			case "replace": // the revision falls back, and the incarnation rises
				last[from].Version = metadata.Version{Incarnation: last[from].Version.Incarnation + 1}
				fallthrough
			case "write":
				last[from].Version.Revision++
				last[from].Value = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "value") // often the one before
				copies[from] = copies[from].Merge(metadata.Map{key(from): last[from]})
			case "send":
				copies[to] = copies[to].Merge(copies[from])
			case "difference":
				copies[to] = copies[to].Merge(copies[from].NewerThan(copies[to]))
			}
		}
		all := metadata.Map{}
		for _, m := range copies {
			all = all.Merge(m)
		}
		for i := range copies {
			copies[i] = copies[i].Merge(all)
			for w := range writers {
				if e := copies[i][key(w)]; e != last[w] {
					t.Fatalf("writer %d wrote %v last, copy %d has %v", w, last[w], i, e)
				}
			}
		}
	})
}
