package topology

import (
	"cmp"
)

// PlacementCost is the cost of a placement, compared part by part: the first part in
// which two placements differ decides, and lower is better.
type PlacementCost struct {
	MissingMembers         int // members of an elastic job that are not placed
	OutsidePreferredDomain int // 1 if some member is outside the preferred domain
	OutsidePreferredLevel  int // 1 if no single domain of the preferred level holds all members

	// These two count for distributed jobs only.
	SharedNodes  int // members that share a node with an earlier member
	SharedLeaves int // members that share a leaf with an earlier member

	// These two describe the distance between the nodes. LatencyNanos counts for
	// latency-sensitive jobs only.
	LatencyNanos int // latency between its most distant nodes, 0 on one node
	Height       int // levels between the leaf and the narrowest domain that holds all members

	// These two count for all but distributed jobs.
	Leaves       int // number of leaves used
	Disconnected int // 1 if its leaves are not connected by adjacency

	ConsolidatedNodes int // number of nodes, for consolidated jobs only

	// These three count for a job that has been placed before. The parts above
	// are rules; among placements that satisfy them equally well, the fewest
	// members move.
	MovedMembers          int // members on nodes that the job did not have
	OutsidePreviousDomain int // 1 if the narrowest domain has none of the nodes it had
	NewLeaves             int // leaves that the job did not have

	// Imbalance is the sum of the squared members per leaf, lowest if they are
	// spread evenly. It is 0 for consolidated jobs.
	Imbalance int
	// InexactFill is 1 if its leaves have more capacity than the job uses. It is 0
	// for distributed jobs and for members without whole devices.
	InexactFill int
	ScoreLoss   int // 1000 minus the weighted score of its leaves
	Penalty     int // sum of the penalties of all members
	Nodes       int // number of nodes used
}

// Compare orders placements by cost, the better one first.
func (v *PlacementCost) Compare(o *PlacementCost) int {
	a, b := v.components(), o.components()
	for i := range a {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}

// components returns all parts in the order in which they are compared.
func (v *PlacementCost) components() [18]int {
	return [18]int{
		v.MissingMembers, v.OutsidePreferredDomain, v.OutsidePreferredLevel, v.SharedNodes, v.SharedLeaves, v.LatencyNanos, v.Height, v.Leaves, v.Disconnected,
		v.ConsolidatedNodes, v.MovedMembers, v.OutsidePreviousDomain, v.NewLeaves, v.Imbalance, v.InexactFill, v.ScoreLoss, v.Penalty, v.Nodes,
	}
}
