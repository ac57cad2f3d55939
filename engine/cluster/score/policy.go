package score

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// Policy chooses nodes by its own score instead of fragmentation. The node with the
// highest score is chosen, the first of several.
type Policy interface {
	// BeginJob says which job the next nodes are scored for, and which element of
	// an array; 0 for other jobs.
	BeginJob(id ares.JobID, element int)
	// Score returns how good a node is for a member. The member fits on the node.
	Score(r *cluster.Request, n *cluster.Node) int
	// Device returns the device for a share as a set of one device; 0 leaves the
	// choice to the default.
	Device(r *cluster.Request, n *cluster.Node) uint64
}

// Basis is what a policy may read.
type Basis struct {
	Config  *config.Config
	Cluster *cluster.Cluster
}

// policies holds the registered policies by name.
var policies = map[config.PlacementPolicy]func(Basis) Policy{}

// Register makes a policy available by name. Call it from the init function of the
// package that implements the policy.
func Register(name config.PlacementPolicy, policy func(Basis) Policy) { policies[name] = policy }

// Registered reports whether a policy is available. The default always is.
func Registered(name config.PlacementPolicy) bool {
	return name == config.PolicyDefault || policies[name] != nil
}

// bestNodeByPolicy returns the allowed node from lo up to hi with the highest score;
// nil when the request fits on none.
func (sc *Scorer) bestNodeByPolicy(r *cluster.Request, allowed *cluster.Set, lo, hi int) *cluster.Node {
	var best *cluster.Node
	highest := 0
	for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
		if sp := &sc.cluster.FreeCPUMem[i]; int(sp.CPUs) < r.CPUs || int(sp.Memory) < r.Memory {
			continue
		}
		n := sc.cluster.Nodes[i]
		if !n.Fits(r) {
			continue
		}
		if v := sc.policy.Score(r, n); best == nil || v > highest {
			best, highest = n, v
		}
	}
	return best
}

// BeginJob says which job the next nodes are scored for. Only policies use it.
func (sc *Scorer) BeginJob(id ares.JobID, element int) {
	if sc.policy != nil {
		sc.policy.BeginJob(id, element)
	}
}

// PolicyDevice returns the device that the policy chooses for a share, as a set of one
// device; 0 for the default choice. The default also applies to requests with a NUMA
// policy and on nodes with warm devices: these matter more.
func (sc *Scorer) PolicyDevice(n *cluster.Node, r *cluster.Request) uint64 {
	if sc.policy == nil || r.Milli == 0 || r.NUMA != cluster.NUMANone || n.Warm != 0 {
		return 0
	}
	return sc.policy.Device(r, n)
}
