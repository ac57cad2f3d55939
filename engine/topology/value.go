package topology

import (
	"cmp"
)

// Value says how good a placement is: of two, the better is the one that is
// less in the first part in which they differ.
type Value struct {
	Missing   int // members of an elastic job that are not placed
	OffDomain int // 1 when it is not all in the preferred domain
	OffLevel  int // 1 when no one domain of the preferred level holds it

	// Of a distributed job only.
	Doubled int // members that share a node with an earlier one
	Crowded int // members that share a leaf with an earlier one

	Nanos int // of a latency-sensitive job: between its farthest nodes, 0 on one node
	Wide  int // levels between the leaf and the narrowest domain that holds it

	// Of other than distributed jobs.
	Leaves int
	Apart  int // 1 when its leaves are not connected by adjacency

	Spread int // of a consolidated job: its nodes

	// Of a job that was placed before: what is above are rules, and of all places
	// that keep them it moves the fewest members.
	Moved int // members on nodes it did not have before
	Stray int // 1 when that domain holds none of the nodes it had before
	Away  int // leaves that it did not have before

	// Shape is the squares of the members of each leaf, least when they are even;
	// 0 for consolidated jobs.
	Shape int
	// Loose is 1 when its leaves have more free seats than it takes. It is 0 for
	// distributed jobs, and for those whose seats are not counted.
	Loose int
	Merit int // of its leaves by the weights: 1000 minus that
	Waste int
	Nodes int
}

// Compare orders values, the better first.
func (v *Value) Compare(o *Value) int {
	a, b := v.parts(), o.parts()
	for i := range a {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}

func (v *Value) parts() [18]int {
	return [18]int{
		v.Missing, v.OffDomain, v.OffLevel, v.Doubled, v.Crowded, v.Nanos, v.Wide, v.Leaves, v.Apart,
		v.Spread, v.Moved, v.Stray, v.Away, v.Shape, v.Loose, v.Merit, v.Waste, v.Nodes,
	}
}
