package topology

import ares "github.com/ares-scheduler/ares"

// The strategies.
const (
	Consolidated = "consolidated"
	Distributed  = "distributed"
	Balanced     = "balanced" // also what "" means
)

// Ask is what a job wants of the places of its members.
type Ask struct {
	Members int
	// Min is how many members are enough, at most Members; 0 means all of them.
	// The most that fit are placed.
	Min     int
	Devices int // whole devices a member, 0 when free devices say nothing about it
	// Required is the level of which one domain must hold all members, "" for
	// none; Preferred is the level of which one should.
	Required, Preferred ares.Level
	PreferredDomain     string // holds all members if it can
	Strategy            string
	Gbps                int  // what the network between any two of its nodes must carry, 0 for none
	LatencySensitive    bool // the domain whose nodes are nearest first
	// Kind names all that decides Room beside the state of the nodes: asks of one
	// kind have the same answers while no node is Set. What proved too small is
	// then not looked at again. 0 promises nothing.
	Kind int
	// Before has the nodes of its last attempt that are still in the tree. Of what
	// is as near, it keeps that domain, those leaves and those nodes.
	Before []int
}

func (a *Ask) min() int {
	if a.Min <= 0 {
		return a.Members
	}
	return a.Min
}

// Fleet answers for single nodes, for one kind of member. It is asked about
// few nodes of those that have the devices.
type Fleet interface {
	// Room is how many members the node can take now, exactly: 0 where the job
	// may not go. It is never more than the free devices told to Set allow.
	Room(node int) int
	// Waste is what a member on the node costs those who come later: less is
	// better. Its sum over the members counts. It may be negative.
	Waste(node int) int
}

// Pick is how many members go to a node.
type Pick struct{ Node, Members int }
