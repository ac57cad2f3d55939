// Package baseline implements placement policies from the literature for comparisons: random, best fit, dot product,
// packing, clustering and FGD. Each policy scores every node on which a member fits. The first node with the highest
// score is chosen. The simulator of the paper "Beware of Fragmentation" (Weng and others, USENIX ATC 2023) chooses a
// node in the same way. Choosing a node takes time proportional to the number of nodes. Gangs are always placed by
// topology, whichever policy is configured.
//
// Importing the package makes the policies available by name (config.Config.Placement). A program that does not
// import the package does not contain the policies. A policy can read only nodes and requests, not jobs or
// queues.
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

// The type `baseline` holds the data that all policies may read. It chooses devices by the default rule.
type baseline struct {
	cfg     *config.Config
	cluster *cluster.Cluster
}

// Device returns 0, so that the default rule chooses the device.
func (baseline) Device(*cluster.Request, *cluster.Node) uint64 { return 0 }

// BeginJob does nothing, because only the policy "random" depends on the job.
func (baseline) BeginJob(ares.JobID, int) {}

// topScore is the highest possible score in the policies that have a fixed range.
const topScore = 100

// bestFit prefers the node that would have the fewest CPUs and GPUs left after the placement.
type bestFit struct{ baseline }

// Score returns a higher number if less capacity is left unused on the node after the placement. CPUs and GPUs have
// equal weight, and both are measured relative to the largest node.
func (p *bestFit) Score(r *cluster.Request, n *cluster.Node) int {
	cpus, gpus := p.cluster.LargestSize()
	left := (n.Type.MilliCPUs-n.MilliCPUs-r.MilliCPUs)/1000*gpus + (n.FreeMilli()-r.GPUMilli())*cpus
	return (2*cpus*gpus - left) * topScore / (2 * cpus * gpus)
}

// dotProduct prefers the node with the smallest dot product of free and requested resources.
type dotProduct struct{ baseline }

// Score returns a higher number if the dot product of the free and the requested resources is smaller.
func (p *dotProduct) Score(r *cluster.Request, n *cluster.Node) int {
	const unit = 1_000_000
	cpus, gpus := p.cluster.LargestSize()
	product := (n.Type.MilliCPUs-n.MilliCPUs)/1000*ares.RoundUpCPUs(r.MilliCPUs)*unit/(cpus*cpus) + n.FreeMilli()*r.GPUMilli()*unit/(gpus*gpus)
	return (2*unit - product) * topScore / (2 * unit)
}

// The policy `packing` prefers devices that are already shared, then nodes that are partly used, then idle nodes.
type packing struct{ baseline }

// Score returns its highest numbers for the fullest device on which a share still fits. Other partly used nodes
// have a lower score. This score is smaller if more devices are requested. Idle nodes have the lowest score.
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

// The policy `clustering` prefers nodes whose jobs request the same number of devices as the new job.
type clustering struct{ baseline }

// Score compares the number of devices that the new job requests with the numbers that the jobs on the node
// requested. The score is highest if all these numbers are equal, and lower if only some are equal. It is still
// lower if the node is idle, and lowest if none is equal. In each of these four cases, a node with less free
// capacity has a higher score.
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
