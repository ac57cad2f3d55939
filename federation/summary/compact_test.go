package summary

import (
	"testing"

	"pgregory.net/rapid"
)

// dominates reports whether a node of the first kind can be used wherever a node of the second kind is expected.
func dominates(a, b node) bool {
	return a.Type == b.Type && a.Free.Devices >= b.Free.Devices && a.PartMilli >= b.PartMilli && a.Free.CPUs >= b.Free.CPUs && a.Free.MemoryMB >= b.Free.MemoryMB
}

// TestCompactPromisesNothing draws nodes and checks that a summary never counts more nodes of at least some size than
// there are, that it has at most MaxShapes shapes, and that it counts every node unless there are too many types.
func TestCompactPromisesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, types, all := map[node]int{}, map[Type]bool{}, 0
		most := rapid.SampledFrom([]int{2, 8, 100}).Draw(t, "models")
		for range rapid.IntRange(0, 300).Draw(t, "nodes") {
			n := node{Type: Type{
				Model: string(rune('a' + rapid.IntRange(0, most).Draw(t, "model"))), Devices: rapid.SampledFrom([]int{0, 1, 8}).Draw(t, "devices"),
				CPUs: rapid.SampledFrom([]int{0, 7, 96, 100_000}).Draw(t, "cpus"), MemoryMB: rapid.SampledFrom([]int{0, 1000, 1 << 20}).Draw(t, "memory"),
			}}
			n.Free = Free{rapid.IntRange(0, n.Type.Devices).Draw(t, "free"), 0, rapid.IntRange(0, n.Type.CPUs).Draw(t, "free CPUs"), rapid.IntRange(0, n.Type.MemoryMB).Draw(t, "free memory")}
			if n.Free.Devices < n.Type.Devices {
				n.PartMilli = rapid.IntRange(0, 999).Draw(t, "part")
			}
			nodes[n]++
			types[n.Type] = true
			all++
		}
		shapes := compact(nodes)
		if len(shapes) > MaxShapes {
			t.Fatalf("%d shapes", len(shapes))
		}
		counted := 0
		for _, s := range shapes {
			counted += s.Count
			promised, there := 0, 0
			for _, other := range shapes {
				if dominates(node{other.Type, other.Free}, node{s.Type, s.Free}) {
					promised += other.Count
				}
			}
			for n, count := range nodes {
				if dominates(n, node{s.Type, s.Free}) {
					there += count
				}
			}
			if promised > there {
				t.Fatalf("%d nodes of at least %+v are promised, and there are %d", promised, s, there)
			}
		}
		if counted > all || counted < all && len(types) <= MaxShapes {
			t.Fatalf("%d of %d nodes are counted", counted, all)
		}
	})
}

// TestWholeNodesStayExact checks that rounding never makes an empty node smaller.
func TestWholeNodesStayExact(t *testing.T) {
	t.Parallel()
	for _, whole := range []int{1, 3, 7, 96, 393_216, 1_000_003} {
		for _, step := range steps {
			if got := floor(whole, whole, step); got != whole {
				t.Errorf("%d of %d in steps of 1/%d is %d", whole, whole, step, got)
			}
		}
	}
}
