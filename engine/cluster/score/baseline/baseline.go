// Package baseline implements placement policies from the literature for comparisons:
// random, best fit, dot product, packing, clustering and FGD. Each gives every node
// that a member fits on a score, as the simulator of "Beware of Fragmentation" (Weng
// and others, USENIX ATC 2023) does, and the first node with the highest score is
// chosen. Their time grows with the number of nodes. Gangs are placed by topology
// whatever the policy.
//
// Importing the package makes the policies available by name
// (config.Config.Placement); a program that does not import it does not link them.
// Policies know nodes and requests only, no jobs or queues.
package baseline

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
)

func init() {
	score.Register(config.PolicyRandom, func(b score.Basis) score.Policy { return &random{baseline: baseline{b.Config, b.Cluster}} })
	score.Register(config.PolicyBestFit, func(b score.Basis) score.Policy { return &bestFit{baseline{b.Config, b.Cluster}} })
	score.Register(config.PolicyDotProduct, func(b score.Basis) score.Policy { return &dotProduct{baseline{b.Config, b.Cluster}} })
	score.Register(config.PolicyPacking, func(b score.Basis) score.Policy { return &packing{baseline{b.Config, b.Cluster}} })
	score.Register(config.PolicyClustering, func(b score.Basis) score.Policy { return &clustering{baseline{b.Config, b.Cluster}} })
	score.Register(config.PolicyFGD, func(b score.Basis) score.Policy { return &fgd{baseline: baseline{b.Config, b.Cluster}} })
}

// baseline is what the policies share: what they may read, and the default choice of
// devices.
type baseline struct {
	cfg     *config.Config
	cluster *cluster.Cluster
}

// Device leaves the choice to the default.
func (baseline) Device(*cluster.Request, *cluster.Node) uint64 { return 0 }

// BeginJob does nothing: only random depends on the job.
func (baseline) BeginJob(ares.JobID, int) {}

// topScore is the highest score of the policies that have a fixed range.
const topScore = 100

// bestFit prefers the node with the fewest CPUs and GPUs left over.
type bestFit struct{ baseline }

// Score is high when little is left. CPUs and GPUs count alike, each relative to the
// largest node.
func (p *bestFit) Score(r *cluster.Request, n *cluster.Node) int {
	cpus, gpus := p.cluster.LargestSize()
	left := (n.Type.CPUs-n.CPUs-r.CPUs)*gpus + (n.FreeMilli()-r.GPUMilli())*cpus
	return (2*cpus*gpus - left) * topScore / (2 * cpus * gpus)
}

// dotProduct prefers the node where the product of free and requested resources is least.
type dotProduct struct{ baseline }

// Score is low where the free and the requested resources point in the same direction.
func (p *dotProduct) Score(r *cluster.Request, n *cluster.Node) int {
	const unit = 1_000_000
	cpus, gpus := p.cluster.LargestSize()
	product := (n.Type.CPUs-n.CPUs)*r.CPUs*unit/(cpus*cpus) + n.FreeMilli()*r.GPUMilli()*unit/(gpus*gpus)
	return (2*unit - product) * topScore / (2 * unit)
}

// packing prefers shared devices, then used nodes, then idle ones.
type packing struct{ baseline }

// Score is highest for the fullest device that a share fits on, then for a used node,
// lower for more requested devices, and then for idle nodes.
func (p *packing) Score(r *cluster.Request, n *cluster.Node) int {
	free := bits.OnesCount64(n.Free)
	switch {
	case !r.NeedsDevices():
		return 0
	case free == bits.OnesCount64(n.Usable):
		return max(topScore/3-free, free)
	case r.Milli > 0:
		if set := n.TightestShare(r.DeviceMask(n.Type), r.Milli); set != 0 {
			return topScore - n.FreeMilliOf(bits.TrailingZeros64(set))/100
		}
	}
	return max(topScore/2-max(r.GPUs, 1), topScore/3)
}

// clustering prefers nodes with jobs that request the same number of devices.
type clustering struct{ baseline }

// Score is highest where all jobs request the same number of devices, then where some
// do, then for idle nodes; among these for the fullest.
func (p *clustering) Score(r *cluster.Request, n *cluster.Node) int {
	const step = topScore / 4
	kind := cluster.SeatKindOf(r.GPUs, r.Milli)
	if kind == 0 {
		return 0
	}
	_, gpus := p.cluster.LargestSize()
	score := step * (gpus - n.FreeMilli()) / gpus
	switch kinds := n.Kinds.Present(); {
	case kinds == 1<<kind:
		return score + 3*step
	case kinds&(1<<kind) != 0:
		return score + 2*step
	case kinds == 0:
		return score + step
	}
	return score
}
