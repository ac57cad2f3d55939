package engine

import (
	"math/bits"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// baselineScores are the scores: higher is better.
var baselineScores = map[config.PlacementPolicy]func(*Scorer, *request, *node) int{
	config.PolicyRandom:     (*Scorer).randomScore,
	config.PolicyBestFit:    (*Scorer).bestFitScore,
	config.PolicyDotProduct: (*Scorer).dotProductScore,
	config.PolicyPacking:    (*Scorer).packingScore,
	config.PolicyClustering: (*Scorer).clusteringScore,
	config.PolicyFGD:        (*Scorer).cachedFGDScore,
}

// maxPolicyScore is the best score of those rules that have one.
const maxPolicyScore = 100

// bestNodeByPolicy finds the node with the highest score by a rule.
func (sc *Scorer) bestNodeByPolicy(rule config.PlacementPolicy, w *request, allowed *set, lo, hi int) *node {
	score := baselineScores[rule]
	var best *node
	highest := 0
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if sp := &sc.cluster.freeCPUMem[i]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory {
			continue
		}
		n := sc.cluster.nodes[i]
		if !n.fits(w) {
			continue
		}
		if v := score(sc, w, n); best == nil || v > highest {
			best, highest = n, v
		}
	}
	return best
}

// randomScore draws a lot for the job and the node.
func (sc *Scorer) randomScore(_ *request, n *node) int {
	return int(mixBits(sc.jobDraw^sc.hashWithSeed(n.id)) >> 1)
}

// drawForJob has the lots of what comes be those of a job, or an array's element.
func (sc *Scorer) drawForJob(id ares.JobID, element int) {
	if sc.cfg.Placement == config.PolicyRandom {
		sc.jobDraw = mixBits(sc.hashWithSeed(string(id)) + uint64(element))
	}
}

// hashWithSeed is a number that looks random, and is the same for a name and a seed.
func (sc *Scorer) hashWithSeed(name string) uint64 {
	h := mixBits(uint64(sc.cfg.Seed))
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mixBits(h)
}

// mixBits lets every bit of a number depend on every other: the last steps of
// Vigna's splitmix64.
func mixBits(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// bestFitScore is high when little is left, CPUs and GPUs counting alike, each as a
// part of the largest machine's.
func (sc *Scorer) bestFitScore(w *request, n *node) int {
	cpus, gpus := sc.cluster.largestSize()
	left := (n.typ.cpus-n.cpus-w.cpus)*gpus + (n.freeMilli()-w.gpuMilli())*cpus
	return (2*cpus*gpus - left) * maxPolicyScore / (2 * cpus * gpus)
}

// dotProductScore is low where what is free and what is asked for point the same way.
func (sc *Scorer) dotProductScore(w *request, n *node) int {
	const unit = 1_000_000
	cpus, gpus := sc.cluster.largestSize()
	product := (n.typ.cpus-n.cpus)*w.cpus*unit/(cpus*cpus) + n.freeMilli()*w.gpuMilli()*unit/(gpus*gpus)
	return (2*unit - product) * maxPolicyScore / (2 * unit)
}

// packingScore is highest for the fullest device that a share fits into, then lower
// the more free devices of a used node are taken, then for the smallest idle
// node.
func (sc *Scorer) packingScore(w *request, n *node) int {
	free := bits.OnesCount64(n.free)
	switch {
	case !w.needsDevices():
		return 0
	case free == bits.OnesCount64(n.usable):
		return max(maxPolicyScore/3-free, free)
	case w.milli > 0:
		if set := n.tightestShare(w.deviceMask(n.typ), w.milli); set != 0 {
			return maxPolicyScore - n.freeMilliOf(bits.TrailingZeros64(set))/100
		}
	}
	return max(maxPolicyScore/2-max(w.gpus, 1), maxPolicyScore/3)
}

// clusteringScore is highest where only jobs that ask for as many devices are, then
// where some are, then for idle nodes; among those, for the fullest.
func (sc *Scorer) clusteringScore(w *request, n *node) int {
	const step = maxPolicyScore / 4
	kind := seatKindOf(w.gpus, w.milli)
	if kind == 0 {
		return 0
	}
	_, gpus := sc.cluster.largestSize()
	score := step * (gpus - n.freeMilli()) / gpus
	switch kinds := n.kinds.present(); {
	case kinds == 1<<kind:
		return score + 3*step
	case kinds&(1<<kind) != 0:
		return score + 2*step
	case kinds == 0:
		return score + step
	}
	return score
}

// policyDevice is the device for a share by a rule that chooses differently than
// the tightest, empty to leave it at that: heat and NUMA nodes matter more.
func (sc *Scorer) policyDevice(n *node, w *request) (set uint64) {
	if w.milli == 0 || w.numa != numaNone || n.warm != 0 {
		return 0
	}
	if sc.cfg.Placement == config.PolicyFGD {
		_, device := sc.fgdScore(w, n) // other members of its gang may have come since the node was scored
		return 1 << device
	}
	if sc.cfg.Placement != config.PolicyRandom {
		return 0
	}
	draw, highest := sc.hashWithSeed(n.id), uint64(0)
	for m := w.deviceMask(n.typ) & n.usable; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if v := mixBits(sc.jobDraw ^ draw + uint64(i) + 1); n.freeMilliOf(i) >= w.milli && (set == 0 || v > highest) {
			set, highest = 1<<i, v
		}
	}
	return set
}
