package cluster

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSet checks that a Set behaves like a map of positions.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20_000).Draw(t, "n")
		var a, b Set
		a.Resize(n)
		b.Resize(n)
		inA, inB := map[int]bool{}, map[int]bool{}
		at := rapid.IntRange(0, n-1)
		for range rapid.IntRange(0, 200).Draw(t, "changes") {
			i, in := at.Draw(t, "i"), rapid.Bool().Draw(t, "in")
			if rapid.Bool().Draw(t, "which") {
				a.Put(i, in)
				inA[i] = in
			} else {
				b.Put(i, in)
				inB[i] = in
			}
		}
		first := func(from int) int {
			for i := from; i < n; i++ {
				if inA[i] {
					return i
				}
			}
			return -1
		}
		from := at.Draw(t, "from")
		if got, want := a.Next(from), first(from); got != want {
			t.Fatalf("next(%d) is %d, want %d", from, got, want)
		}
		to := at.Draw(t, "to")
		var got, want []int
		a.Common(&b, from, to, func(i int) bool { got = append(got, i); return len(got) == 3 })
		for i := from; i < to && len(want) < 3; i++ {
			if inA[i] && inB[i] {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("common from %d to %d begins with %v, want %v", from, to, got, want)
		}
		count := 0
		for _, in := range inA { // order-free: a count
			if in {
				count++
			}
		}
		if a.Count != count {
			t.Fatalf("count is %d, want %d", a.Count, count)
		}
	})
}
