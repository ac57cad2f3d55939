package score

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// A Policy is an alternative to the default score. It chooses nodes by a score of its own instead of by
// fragmentation. The node with the highest score is chosen. If several nodes have the highest score, the first
// one is chosen.
type Policy interface {
	// BeginJob sets the job for which the next nodes are scored. If the job is an array, the argument `element`
	// is the index of the element. If the job is not an array, `element` is 0.
	BeginJob(id ares.JobID, element int)
	// Score returns a higher number for a node that suits one member better. The caller calls Score only if the
	// member fits on the node.
	Score(r *cluster.Request, n *cluster.Node) int
	// Device returns the device for a share, as a set that contains one device. If Device returns 0, the default rule
	// chooses the device.
	Device(r *cluster.Request, n *cluster.Node) uint64
}

// Basis holds the data that a policy may read.
type Basis struct {
	Config  *config.Config
	Cluster *cluster.Cluster
}

// The map `policies` maps each name to the registered policy with that name.
var policies = map[config.PlacementPolicy]func(Basis) Policy{}

// Register makes a policy available by name. Call Register from the init function of the package that implements the
// policy.
func Register(name config.PlacementPolicy, policy func(Basis) Policy) { policies[name] = policy }

// Registered reports whether a policy with the given name is available. The default policy is always available.
func Registered(name config.PlacementPolicy) bool {
	return name == config.PolicyDefault || policies[name] != nil
}

// bestNodeByPolicy returns the allowed node with the highest score at a position p with lo <= p < hi.
// bestNodeByPolicy returns nil if the request fits on no such node.
func (sc *Scorer) bestNodeByPolicy(r *cluster.Request, allowed *cluster.Set, lo, hi int) *cluster.Node {
	var best *cluster.Node
	highest := 0
	for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
		if sp := &sc.cluster.FreeCPUMem[i]; int(sp.MilliCPUs) < r.MilliCPUs || int(sp.Memory) < r.Memory {
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

// BeginJob sets the job for which the next nodes are scored. BeginJob has an effect only if a policy replaces the
// default score.
func (sc *Scorer) BeginJob(id ares.JobID, element int) {
	if sc.policy != nil {
		sc.policy.BeginJob(id, element)
	}
}

// PolicyDevice returns the device that the policy chooses for a share, as a set that contains one device.
// PolicyDevice returns 0 if the default rule must choose the device. The default rule always applies to requests with
// a NUMA policy and to nodes with warm devices, because NUMA binding and temperature matter more than the policy.
func (sc *Scorer) PolicyDevice(n *cluster.Node, r *cluster.Request) uint64 {
	if sc.policy == nil || r.Milli == 0 || r.NUMA != cluster.NUMANone || n.Warm != 0 {
		return 0
	}
	return sc.policy.Device(r, n)
}
