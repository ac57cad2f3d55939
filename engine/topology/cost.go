package topology

import (
	"cmp"
)

// Value is the cost of a placement, compared part by part: the first part in
// which two placements differ decides, and lower is better.
type Value struct {
	Missing   int // members of an elastic job that are not placed
	OffDomain int // 1 if some member is outside the preferred domain
	OffLevel  int // 1 if no single domain of the preferred level holds all members

	// These two count for distributed jobs only.
	Doubled int // members that share a node with an earlier member
	Crowded int // members that share a leaf with an earlier member

	// These two describe the distance between the nodes. Nanos counts for
	// latency-sensitive jobs only.
	Nanos int // latency between its most distant nodes, 0 on one node
	Wide  int // levels between the leaf and the narrowest domain that holds all members

	// These two count for all but distributed jobs.
	Leaves int // number of leaves used
	Apart  int // 1 if its leaves are not connected by adjacency

	Spread int // number of nodes, for consolidated jobs only

	// These three count for a job that has been placed before. The parts above
	// are rules; among placements that satisfy them equally well, the fewest
	// members move.
	Moved int // members on nodes that the job did not have
	Stray int // 1 if the narrowest domain has none of the nodes it had
	Away  int // leaves that the job did not have

	// Shape is the sum of the squared members per leaf, lowest if they are
	// spread evenly. It is 0 for consolidated jobs.
	Shape int
	// Loose is 1 if its leaves have more capacity than the job uses. It is 0
	// for distributed jobs and for members without whole devices.
	Loose int
	Merit int // 1000 minus the weighted score of its leaves
	Waste int // sum of the penalties of all members
	Nodes int // number of nodes used
}

// Compare orders placements by cost, the better one first.
func (v *Value) Compare(o *Value) int {
	a, b := v.components(), o.components()
	for i := range a {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}

// components returns all parts in the order in which they are compared.
func (v *Value) components() [18]int {
	return [18]int{
		v.Missing, v.OffDomain, v.OffLevel, v.Doubled, v.Crowded, v.Nanos, v.Wide, v.Leaves, v.Apart,
		v.Spread, v.Moved, v.Stray, v.Away, v.Shape, v.Loose, v.Merit, v.Waste, v.Nodes,
	}
}
