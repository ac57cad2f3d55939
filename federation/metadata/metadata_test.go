package metadata_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ares-scheduler/ares/federation/metadata"
)

// drawEntry draws an entry with a small version, so that equal versions with different values occur too.
var drawEntry = rapid.Custom(func(t *rapid.T) metadata.Entry {
	return metadata.Entry{
		Version: metadata.Version{Incarnation: rapid.Int64Range(0, 2).Draw(t, "incarnation"), Revision: rapid.Int64Range(0, 3).Draw(t, "revision")},
		Gone:    rapid.Bool().Draw(t, "gone"),
		Value:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "value"),
	}
})

var drawMap = rapid.Custom(func(t *rapid.T) metadata.Map {
	return rapid.MapOfN(rapid.SampledFrom([]string{"ams", "fra", "iad", "nrt"}), drawEntry, 0, 4).Draw(t, "entries")
})

// TestLaws checks that Merge is a join: commutative, associative, idempotent, and the least map above both.
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
		if !ab.AtLeast(a) || !ab.AtLeast(b) {
			t.Fatalf("not monotone: %v is not above %v and %v", ab, a, b)
		}
		if c.AtLeast(a) && c.AtLeast(b) && !c.AtLeast(ab) {
			t.Fatalf("%v is above %v and %v, but not above their merge %v", c, a, b, ab)
		}
		if a.AtLeast(b) && b.AtLeast(a) && !maps.Equal(a, b) {
			t.Fatalf("%v and %v are above each other", a, b)
		}
	})
}

// TestCopiesBecomeEqual lets three writers change their entries, restores one of them now and then, and sends whole maps
// and differences between copies in any order, repeatedly or never. After one last round of messages, all copies are
// equal and have the last word of every writer.
func TestCopiesBecomeEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const writers = 3
		copies, last := make([]metadata.Map, writers), make([]metadata.Entry, writers)
		for i := range copies {
			copies[i] = metadata.Map{}
		}
		for step := range rapid.IntRange(0, 40).Draw(t, "steps") {
			from := rapid.IntRange(0, writers-1).Draw(t, "from")
			switch to := rapid.IntRange(0, writers-1).Draw(t, "to"); rapid.SampledFrom([]string{"write", "restore", "send", "difference"}).Draw(t, "what") {
			case "restore": // the revision falls back, and the incarnation rises
				last[from].Version = metadata.Version{Incarnation: last[from].Version.Incarnation + 1}
				fallthrough
			case "write":
				last[from].Version.Revision++
				last[from].Value = fmt.Sprint(step)
				if err := copies[from].Put(fmt.Sprint(from), last[from]); err != nil {
					t.Fatal(err)
				}
			case "send":
				copies[to] = copies[to].Merge(copies[from])
			case "difference":
				whole, part := copies[to].Merge(copies[from]), copies[to].Merge(copies[from].NewerThan(copies[to].Versions()))
				if !maps.Equal(whole, part) {
					t.Fatalf("the difference gives %v, the whole map %v", part, whole)
				}
				copies[to] = part
			}
		}
		all := metadata.Map{}
		for _, m := range copies {
			all = all.Merge(m)
		}
		for i := range copies {
			copies[i] = copies[i].Merge(all)
			if !maps.Equal(copies[i], all) {
				t.Fatalf("copy %d is %v, want %v", i, copies[i], all)
			}
			if e := all[fmt.Sprint(i)]; e != last[i] {
				t.Fatalf("writer %d wrote %v last, the copies have %v", i, last[i], e)
			}
		}
	})
}

// TestPut checks that a writer can repeat a write, and that a lower version and a second value of one version are errors.
func TestPut(t *testing.T) {
	t.Parallel()
	m := metadata.Map{}
	at := func(incarnation, revision int64, value string) metadata.Entry {
		return metadata.Entry{Version: metadata.Version{Incarnation: incarnation, Revision: revision}, Value: value}
	}
	for _, c := range []struct {
		entry metadata.Entry
		good  bool
	}{
		{at(0, 5, "a"), true}, {at(0, 5, "a"), true}, {at(0, 5, "b"), false}, {at(0, 4, "a"), false},
		{at(1, 1, "b"), true}, {at(0, 9, "c"), false}, {at(1, 2, "c"), true},
	} {
		before := m["fra"]
		err := m.Put("fra", c.entry)
		if (err == nil) != c.good {
			t.Errorf("%v after %v: %v", c.entry, before, err)
		}
		if err != nil && m["fra"] != before {
			t.Errorf("a rejected write changed %v to %v", before, m["fra"])
		}
	}
	m["iad"] = metadata.Entry{Version: metadata.Version{Revision: 1}, Gone: true}
	if names := m.Names(); !slices.Equal(names, []string{"fra"}) {
		t.Errorf("names %v", names)
	}
}
