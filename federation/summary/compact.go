package summary

import (
	"cmp"
	"slices"
	"strings"
)

// node is a node without its name: what it has, and what of it is free.
type node struct {
	Type
	Free
}

// steps are the numbers of parts into which free CPUs, free memory and free parts of devices are rounded down. If a
// summary has more than MaxShapes shapes, the next smaller number is tried.
var steps = []int{32, 16, 8, 4, 2, 1}

// compact rounds nodes down until they have at most MaxShapes shapes. If even the coarsest shapes are too many, the
// nodes with the fewest free devices are counted as full, and at last the rarest types are left out.
func compact(nodes map[node]int) []Shape {
	var shapes []Shape
	for _, step := range steps {
		if shapes = merge(nodes, func(n node) node { return n.rounded(step) }); len(shapes) <= MaxShapes {
			return shapes
		}
	}
	for least := 1; ; least++ {
		most := 0
		shapes = merge(nodes, func(n node) node {
			n, most = n.rounded(1), max(most, n.Free.Devices)
			if n.Free.Devices < least {
				n.Free = Free{}
			}
			return n
		})
		if len(shapes) <= MaxShapes {
			return shapes
		}
		if least > most {
			break
		}
	}
	slices.SortStableFunc(shapes, func(a, b Shape) int {
		return cmp.Compare(b.Count*max(b.Type.Devices, 1), a.Count*max(a.Type.Devices, 1))
	})
	shapes = shapes[:MaxShapes]
	slices.SortFunc(shapes, compareShapes)
	return shapes
}

// merge rounds all nodes and counts the equal ones.
func merge(nodes map[node]int, round func(node) node) []Shape {
	counts := make(map[node]int, len(nodes))
	for n, count := range nodes {
		counts[round(n)] += count
	}
	shapes := make([]Shape, 0, len(counts))
	for n, count := range counts {
		shapes = append(shapes, Shape{n.Type, n.Free, count})
	}
	slices.SortFunc(shapes, compareShapes)
	return shapes
}

// rounded rounds the free amounts of a node down to multiples of a step-th of what the node has. An amount that is
// entirely free stays exact. A node on which nothing can start is full.
func (n node) rounded(step int) node {
	n.Free.CPUs = floor(n.Free.CPUs, n.Type.CPUs, step)
	n.Free.MemoryMB = floor(n.Free.MemoryMB, n.Type.MemoryMB, step)
	n.PartMilli = floor(n.PartMilli, 1000, step)
	if n.Type.Devices > 0 && n.Free.Devices == 0 && n.PartMilli == 0 && n.Free.CPUs == 0 ||
		n.Type.CPUs > 0 && n.Free.CPUs == 0 || n.Type.MemoryMB > 0 && n.Free.MemoryMB == 0 {
		n.Free = Free{}
	}
	return n
}

// floor returns the largest multiple of whole/step that is not larger than the amount, rounded down.
func floor(amount, whole, step int) int {
	if whole == 0 {
		return 0
	}
	return min(amount, amount*step/whole*whole/step)
}

func compareShapes(a, b Shape) int {
	return cmp.Or(
		strings.Compare(a.Model, b.Model), cmp.Compare(a.Type.Devices, b.Type.Devices), cmp.Compare(a.Type.CPUs, b.Type.CPUs),
		cmp.Compare(a.Type.MemoryMB, b.Type.MemoryMB), cmp.Compare(a.DeviceMemoryMB, b.DeviceMemoryMB), strings.Compare(a.Link, b.Link),
		cmp.Compare(b.Free.Devices, a.Free.Devices), cmp.Compare(b.PartMilli, a.PartMilli), cmp.Compare(b.Free.CPUs, a.Free.CPUs),
		cmp.Compare(b.Free.MemoryMB, a.Free.MemoryMB),
	)
}
