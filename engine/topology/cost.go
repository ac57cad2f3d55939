package topology

import (
	"cmp"
	"slices"
)

// PlacementCost is the cost of a placement. Costs are compared part by part. Two placements are compared by the
// first part in which they differ. The lower value is better.
type PlacementCost struct {
	MissingMembers         int // members of an elastic job that are not placed
	OutsidePreferredDomain int // 1 if some member is outside the preferred domain
	OutsidePreferredLevel  int // 1 if no single domain of the preferred level holds all members

	// SharedNodes and SharedLeaves are counted only for distributed jobs.
	SharedNodes  int // members that share a node with an earlier member
	SharedLeaves int // members that share a leaf with an earlier member

	// LatencyNanos and Height describe the distance between the nodes. LatencyNanos is counted only
	// for latency-sensitive jobs.
	LatencyNanos int // latency between its most distant nodes, 0 on one node
	Height       int // levels between the leaf and the narrowest domain that holds all members

	// Leaves and Disconnected are counted for all jobs except distributed ones.
	Leaves       int // number of leaves used
	Disconnected int // 1 if its leaves are not connected by adjacency

	ConsolidatedNodes int // number of nodes, for consolidated jobs only

	// MovedMembers, OutsidePreviousDomain and NewLeaves are counted for a job that has been placed before. All
	// fields that are declared before MovedMembers measure how well a placement satisfies the placement rules.
	// Several placements may satisfy the placement rules equally well. Then the one that moves the fewest members is
	// best.
	MovedMembers          int // members on nodes that the job did not have
	OutsidePreviousDomain int // 1 if the narrowest domain has none of the nodes it had
	NewLeaves             int // leaves that the job did not have

	// BandwidthLoss and NetworkNanos describe the network between the leaves of the placement. They are compared
	// before the fill and the score of the leaves, and after the rules and the moved members.
	BandwidthLoss int // highest bandwidth of any switch minus the bandwidth of this network, in Gb/s
	NetworkNanos  int // latency of the narrowest domain that holds all members

	// Imbalance is a sum over all leaves. Each leaf adds the square of its number of members. Imbalance is
	// lowest if members are spread evenly over the leaves. Imbalance is 0 for consolidated jobs.
	Imbalance int
	// InexactFill is 1 if the leaves of the placement have more free capacity than the job uses. InexactFill is 0 for
	// distributed jobs and for members without whole devices.
	InexactFill int
	ScoreLoss   int // 1000 minus the weighted score of its leaves
	Penalty     int // sum of the penalties of all members
	Nodes       int // number of nodes used
}

// Compare compares two placements by cost. The better placement comes first.
func (v *PlacementCost) Compare(o *PlacementCost) int {
	a, b := v.components(), o.components()
	for i := range a {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}

// ObeysRulesAs reports whether the placement is as good as another one by all parts that come before the balance and the
// score of the leaves: the members placed, the rules of the job, the members that move, and the network.
func (v *PlacementCost) ObeysRulesAs(o *PlacementCost) bool {
	a, b := v.components(), o.components()
	return slices.Compare(a[:rulesAndNetwork], b[:rulesAndNetwork]) <= 0
}

// rulesAndNetwork is the number of parts before Imbalance.
const rulesAndNetwork = 15

// The method `components` returns all parts of the cost in the order in which they are compared.
func (v *PlacementCost) components() [20]int {
	return [20]int{
		v.MissingMembers, v.OutsidePreferredDomain, v.OutsidePreferredLevel, v.SharedNodes, v.SharedLeaves, v.LatencyNanos, v.Height, v.Leaves, v.Disconnected,
		v.ConsolidatedNodes, v.MovedMembers, v.OutsidePreviousDomain, v.NewLeaves, v.BandwidthLoss, v.NetworkNanos, v.Imbalance, v.InexactFill, v.ScoreLoss, v.Penalty, v.Nodes,
	}
}
