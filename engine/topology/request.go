package topology

import ares "github.com/ares-scheduler/ares"

// The placement strategies.
const (
	// Consolidated uses the fewest nodes.
	Consolidated = "consolidated"
	// Distributed uses as many nodes and leaves as possible.
	Distributed = "distributed"
	// Balanced spreads members evenly over the fewest leaves. It is the
	// default: an empty strategy means the same.
	Balanced = "balanced"
)

// Request is a placement request: the members of one job and its constraints on
// their location.
type Request struct {
	// Members is the number of members wanted.
	Members int
	// Min is the number of members that suffice; 0 means all of them. As many
	// members as fit are placed. Invariant: MinMembers <= Members.
	MinMembers int
	// Devices is the number of whole devices per member. It is 0 if the number
	// of free devices does not limit the members of a node.
	DevicesPerMember int
	// Required is the level at which one domain must hold all members, "" for
	// none. Preferred is the level at which one domain should hold them.
	RequiredLevel, PreferredLevel ares.Level
	PreferredDomain               string // name of the domain that should hold all members, "" for none
	Strategy                      string
	MinGbps                       int  // least bandwidth between any two of its nodes, 0 for no minimum
	LatencySensitive              bool // prefer the domain with the lowest latency
	// Kind identifies everything that determines a node's capacity besides the
	// node's state. Requests with the same kind share cached results: a domain
	// that was too small is not searched again until one of its nodes changes.
	// 0 disables this.
	CacheKey int
	// Before has the nodes of the job's last attempt that are still in the
	// tree. Among placements that satisfy the rules equally well, the search
	// prefers the one that moves the fewest members away from them.
	PreviousNodes []int
}

// minMembers returns the number of members that suffice.
func (a *Request) minMembers() int {
	if a.MinMembers <= 0 {
		return a.Members
	}
	return a.MinMembers
}

// NodeEvaluator answers questions about single nodes for one kind of member. The search
// asks about few of the nodes that have enough free devices.
type NodeEvaluator interface {
	// Room returns how many members the node can take now: 0 if the job may not
	// run there. Invariant: it never exceeds what the free devices given to SetFree
	// allow.
	Capacity(node int) int
	// Waste returns the penalty of one member on the node: the fragmentation it
	// causes and the node's history penalty. Lower is better, and the value may
	// be negative. The sum over all members counts.
	Penalty(node int) int
}

// Assignment is a node and the number of members placed there.
type Assignment struct{ Node, Members int }
