package score

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// Policy is a rule for which node a member goes to, other than the default one. The
// node with the highest score is taken, the first of several.
type Policy interface {
	// BeginJob says for which job nodes are looked for next: which element of
	// an array, 0 for others.
	BeginJob(id ares.JobID, element int)
	// Score is how good the node is for a member. It has room for it.
	Score(w *cluster.Request, n *cluster.Node) int
	// Device is the device for a share, as a set of one; empty for the one that the
	// default policy takes.
	Device(w *cluster.Request, n *cluster.Node) uint64
}

// Basis is what a policy may look at.
type Basis struct {
	Config  *config.Config
	Cluster *cluster.Cluster
}

// policies are those that a package has registered.
var policies = map[config.PlacementPolicy]func(Basis) Policy{}

// Register makes a policy available by name. It is for the init function of the
// package that has it.
func Register(name config.PlacementPolicy, policy func(Basis) Policy) { policies[name] = policy }

// bestNodeByPolicy finds the node with the highest score by the policy.
func (sc *Scorer) bestNodeByPolicy(w *cluster.Request, allowed *cluster.Set, lo, hi int) *cluster.Node {
	var best *cluster.Node
	highest := 0
	for i := allowed.Next(lo); i >= 0 && i < hi; i = allowed.Next(i + 1) {
		if sp := &sc.cluster.FreeCPUMem[i]; int(sp.CPUs) < w.CPUs || int(sp.Memory) < w.Memory {
			continue
		}
		n := sc.cluster.Nodes[i]
		if !n.Fits(w) {
			continue
		}
		if v := sc.policy.Score(w, n); best == nil || v > highest {
			best, highest = n, v
		}
	}
	return best
}

// BeginJob says for which job nodes are looked for next.
func (sc *Scorer) BeginJob(id ares.JobID, element int) {
	if sc.policy != nil {
		sc.policy.BeginJob(id, element)
	}
}

// PolicyDevice is the device for a share by a policy that chooses differently than
// the tightest, empty to leave it at that: heat and NUMA nodes matter more.
func (sc *Scorer) PolicyDevice(n *cluster.Node, w *cluster.Request) uint64 {
	if sc.policy == nil || w.Milli == 0 || w.NUMA != cluster.NUMANone || n.Warm != 0 {
		return 0
	}
	return sc.policy.Device(w, n)
}
