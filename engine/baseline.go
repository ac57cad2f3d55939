package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// Placement is a rule for which node a member goes to. All but the default are
// there to compare with: each gives every node that has room a score, as the
// simulator of "Beware of Fragmentation" (Weng and others, USENIX ATC 2023)
// does, and takes the first of those with the highest. Their time grows with the
// fleet. Gangs of several members are placed by the topology whatever the rule.
type Placement string

// The rules.
const (
	PlaceAres       Placement = ""           // the least stranded capacity
	PlaceRandom     Placement = "random"     // any node, any device
	PlaceBestFit    Placement = "bestfit"    // the least CPUs and GPUs left over
	PlaceDotProduct Placement = "dotprod"    // the least product of what is free and what is asked for
	PlacePacking    Placement = "packing"    // shared devices, then used nodes, then idle ones
	PlaceClustering Placement = "clustering" // where jobs that ask for as many devices are
	PlaceFGD        Placement = "fgd"        // the steepest descent of fragmentation
)

// baselines are the scores: higher is better.
var baselines = map[Placement]func(*State, *want, *node) int{
	PlaceRandom:     (*State).lotOn,
	PlaceBestFit:    (*State).fitOn,
	PlaceDotProduct: (*State).dotOn,
	PlacePacking:    (*State).packOn,
	PlaceClustering: (*State).clusterOn,
	PlaceFGD:        (*State).descentOn,
}

// Placements are the rules by name, in an order for people.
func Placements() []Placement {
	return []Placement{PlaceRandom, PlaceDotProduct, PlaceClustering, PlacePacking, PlaceBestFit, PlaceFGD}
}

// topScore is the best score of those rules that have one.
const topScore = 100

// seekBy finds the node with the highest score by a rule.
func (s *State) seekBy(rule Placement, w *want, allowed *set, lo, hi int) *node {
	score := baselines[rule]
	var best *node
	highest := 0
	for i := allowed.next(lo); i >= 0 && i < hi; i = allowed.next(i + 1) {
		if sp := &s.spare[i]; int(sp.cpus) < w.cpus || int(sp.memory) < w.memory {
			continue
		}
		n := s.nodes[i]
		if !n.fits(w) {
			continue
		}
		if v := score(s, w, n); best == nil || v > highest {
			best, highest = n, v
		}
	}
	return best
}

// lotOn draws a lot for the job and the node.
func (s *State) lotOn(_ *want, n *node) int { return int(mixed(s.lot^n.lot) >> 1) }

// drawFor has the lots of what comes be those of a job, or an array's element.
func (s *State) drawFor(id ares.JobID, element int) {
	if s.cfg.Placement == PlaceRandom {
		s.lot = mixed(s.drawn(string(id)) + uint64(element))
	}
}

// drawn is a number that looks random, and is the same for a name and a seed.
func (s *State) drawn(name string) uint64 {
	h := mixed(uint64(s.cfg.Seed))
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mixed(h)
}

// mixed lets every bit of a number depend on every other: the last steps of
// Vigna's splitmix64.
func mixed(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// fitOn is high when little is left, CPUs and GPUs counting alike, each as a
// part of the largest machine's.
func (s *State) fitOn(w *want, n *node) int {
	cpus, gpus := s.largest()
	left := (n.profile.cpus-n.cpus-w.cpus)*gpus + (n.unsold()-w.asks())*cpus
	return (2*cpus*gpus - left) * topScore / (2 * cpus * gpus)
}

// dotOn is low where what is free and what is asked for point the same way.
func (s *State) dotOn(w *want, n *node) int {
	const unit = 1_000_000
	cpus, gpus := s.largest()
	product := (n.profile.cpus-n.cpus)*w.cpus*unit/(cpus*cpus) + n.unsold()*w.asks()*unit/(gpus*gpus)
	return (2*unit - product) * topScore / (2 * unit)
}

// packOn is highest for the fullest device that a share fits into, then lower
// the more free devices of a used node are taken, then for the smallest idle
// node.
func (s *State) packOn(w *want, n *node) int {
	free := bits.OnesCount64(n.free)
	switch {
	case !w.devices():
		return 0
	case free == bits.OnesCount64(n.usable):
		return max(topScore/3-free, free)
	case w.milli > 0:
		if set := n.tightest(w.mask(n.profile), w.milli); set != 0 {
			return topScore - n.remains(bits.TrailingZeros64(set))/100
		}
	}
	return max(topScore/2-max(w.gpus, 1), topScore/3)
}

// clusterOn is highest where only jobs that ask for as many devices are, then
// where some are, then for idle nodes; among those, for the fullest.
func (s *State) clusterOn(w *want, n *node) int {
	const step = topScore / 4
	kind := kindOf(w.gpus, w.milli)
	if kind == 0 {
		return 0
	}
	_, gpus := s.largest()
	score := step * (gpus - n.unsold()) / gpus
	switch kinds := n.kinds.held(); {
	case kinds == 1<<kind:
		return score + 3*step
	case kinds&(1<<kind) != 0:
		return score + 2*step
	case kinds == 0:
		return score + step
	}
	return score
}

// peak is the largest machine's CPUs, and another's thousandths of devices.
type peak struct{ cpus, gpus int }

// largest is the CPUs, and the thousandths of devices, of the fleet's largest
// machines, so that neither is 0.
func (s *State) largest() (cpus, gpus int) { return max(s.peak.cpus, 1), max(s.peak.gpus, 1) }

// asks is how many thousandths of devices a member takes.
func (w *want) asks() int { return max(w.gpus*wholeMilli, w.milli) }

// unsold is how many thousandths of the node's devices nobody has.
func (n *node) unsold() int {
	sum := 0
	for m := n.usable; m != 0; m &= m - 1 {
		sum += n.remains(bits.TrailingZeros64(m))
	}
	return sum
}

// remains is how much of a device nobody has.
func (n *node) remains(device int) int { return max(wholeMilli-n.devices[device].taken, 0) }

// kinds counts the seats on a node by how many devices each has.
type kinds [64]uint16

// kindOf is 0 for no device, 1 for a share of one, and one more than the number
// of whole devices; all beyond are one kind.
func kindOf(gpus, milli int) int {
	switch {
	case milli > 0 && milli < wholeMilli:
		return 1
	case milli > 0:
		return 2
	case gpus > 0:
		return min(gpus+1, len(kinds{})-1)
	}
	return 0
}

// seatKind is the kind of a seat.
func seatKind(seat *ares.Seat) int {
	if len(seat.Shares) == 1 {
		return kindOf(0, seat.Shares[0].Milli)
	}
	return kindOf(len(seat.Shares), 0)
}

func (k *kinds) add(kind, sign int) { k[kind] += uint16(sign) }

// held is the kinds of which there are any, as a set.
func (k *kinds) held() (out uint64) {
	for kind := 1; kind < len(k); kind++ {
		if k[kind] > 0 {
			out |= 1 << kind
		}
	}
	return out
}

// favourite is the device for a share by a rule that chooses differently than
// the tightest, empty to leave it at that: heat and NUMA nodes matter more.
func (s *State) favourite(n *node, w *want) (set uint64) {
	if w.milli == 0 || w.numa != numaNone || n.warm != 0 {
		return 0
	}
	if s.cfg.Placement == PlaceFGD {
		_, device := s.descend(w, n) // other members of its gang may have come since the node was scored
		return 1 << device
	}
	if s.cfg.Placement != PlaceRandom {
		return 0
	}
	var highest uint64
	for m := w.mask(n.profile) & n.usable; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if v := mixed(s.lot ^ n.lot + uint64(i) + 1); n.remains(i) >= w.milli && (set == 0 || v > highest) {
			set, highest = 1<<i, v
		}
	}
	return set
}
