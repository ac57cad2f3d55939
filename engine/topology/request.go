package topology

import ares "github.com/ares-scheduler/ares"

// These are the placement strategies.
const (
	// The strategy Consolidated places the members on as few nodes as possible.
	Consolidated = "consolidated"
	// The strategy Distributed places the members on as many nodes and leaves as possible.
	Distributed = "distributed"
	// The strategy Balanced spreads the members evenly over as few leaves as possible. Balanced is the default, and
	// it also applies if no strategy is given.
	Balanced = "balanced"
)

// Request is a placement request. The request describes the members of one job and the constraints on their location.
type Request struct {
	// Members is the requested number of members.
	Members int
	// MinMembers is the smallest number of members with which the job can run. The value 0 means that all members are
	// needed. The search places as many members as fit. Invariant: MinMembers <= Members.
	MinMembers int
	// DevicesPerMember is the number of whole devices that each member needs. DevicesPerMember is 0 if the number of
	// free devices does not limit how many members fit on a node.
	DevicesPerMember int
	// RequiredLevel names a topology level. One domain of this level must contain all members. The value "" means
	// that there is no such requirement. PreferredLevel names a topology level. If possible, one domain of this
	// level should contain all members.
	RequiredLevel, PreferredLevel ares.Level
	PreferredDomain               string // name of the domain that should hold all members, "" for none
	Strategy                      string
	MinGbps                       int  // least bandwidth between any two of its nodes, 0 for no minimum
	LatencySensitive              bool // prefer the domain with the lowest latency
	// CacheKey identifies all inputs that determine the capacity of a node, except the node's own state.
	// Requests with the same key share cached results. For example, a domain that was too small is not searched
	// again until one of its nodes changes. The value 0 disables caching.
	CacheKey int
	// PreviousNodes lists the nodes of the job's last attempt that are still in the tree. Several placements may
	// satisfy the rules equally well. Then the search prefers the one that moves the fewest members away from these
	// nodes.
	PreviousNodes []int
}

// minMembers returns the smallest number of members with which the job can run.
func (a *Request) minMembers() int {
	if a.MinMembers <= 0 {
		return a.Members
	}
	return a.MinMembers
}

// NodeEvaluator answers questions about single nodes for one kind of job member. The search asks only about a few of
// the nodes that have enough free devices.
type NodeEvaluator interface {
	// Capacity returns how many members currently fit on the node. Capacity returns 0 if the job may not run on the
	// node. Invariant: the capacity never exceeds the number of members that fit on the free devices passed to
	// SetFree.
	Capacity(node int) int
	// Penalty returns the penalty for placing one member on the node. It is the fragmentation that the member causes,
	// plus the node's history penalty. A lower penalty is better, and the penalty may be negative. The search
	// compares the sum of the penalties of all members.
	Penalty(node int) int
}

// Assignment is a node together with the number of members that are placed on it.
type Assignment struct{ Node, Members int }
