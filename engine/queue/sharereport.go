package queue

import (
	"math/bits"
	"time"
)

// Share describes the fair share of a tenant or a queue. Shares are in millionths
// of the cluster.
type Share struct {
	Tenant           string
	Queue            string       // "" for the tenant
	Depth            int          // 0 for a tenant
	Weight           int64        // in thousandths
	EffectiveWeight  int64        // the weight adjusted to past use, in thousandths
	Allocated        Resources    // allocated now
	PastUse          Resources    // past use
	Waiting          int          // items
	DominantShare    int64        // dominant share of allocated and past use together
	DominantResource ResourceName // the resource of DominantShare
	WeightedShare    int64        // the dominant share divided by the effective weight
	// FairShare is the share to which the weight entitles the tenant or queue. The parent's fair share is
	// divided among its active children by weight. FairShare is 0 if the tenant or queue is not active.
	FairShare int64
}

// ShareScale is the number that stands for a share of 100%.
const ShareScale = 1_000_000

// Shares returns the shares of all tenants and queues at the time `now`. Tenants are ordered by name, and each
// tenant is followed by its queues.
func (t *Tree[J]) Shares(now time.Time) []Share {
	t.rebuild()
	r := shareReader[J]{tree: t}
	if t.cfg.HalfLife > 0 {
		r.moment = t.cfg.momentOf(now)
		r.adjustment = t.weightAdjustment(r.moment)
	}
	return r.appendShares(nil, t.root, 0, ShareScale)
}

// shareReader computes shares and classes at a given time. It does not need a round.
type shareReader[J any] struct {
	tree       *Tree[J]
	bounds     classBounds
	moment     moment
	adjustment weightAdjustment
}

// shareOf returns the weighted share of a node.
func (r *shareReader[J]) shareOf(n *node[J]) uint64 {
	var past Resources
	if r.tree.cfg.HalfLife > 0 {
		past = n.history.averageAt(r.moment)
	}
	return weightedShare(n.allocated.Add(past, 1), r.tree.capacity, effectiveWeight(&r.adjustment, n, past, r.tree.capacity))
}

// appendShares appends the shares of all tenants and queues below a node. The argument `fair` is the node's own
// fair share.
func (r *shareReader[J]) appendShares(out []Share, n *node[J], depth int, fair int64) []Share {
	total := int64(0)
	for _, child := range n.children {
		if child.isActive() {
			total += child.weight
		}
	}
	for _, child := range n.children {
		if child.leaf != nil {
			continue
		}
		s := Share{Tenant: child.tenant, Queue: child.queue, Depth: depth, Weight: child.weight, Allocated: child.allocated, Waiting: child.waiting}
		if r.tree.cfg.HalfLife > 0 {
			s.PastUse = child.history.averageAt(r.moment)
		}
		use := s.Allocated.Add(s.PastUse, 1)
		best, of := dominantShare(use, r.tree.capacity)
		s.DominantResource = of
		s.DominantShare = millionths(best / 1000)
		s.EffectiveWeight = effectiveWeight(&r.adjustment, child, s.PastUse, r.tree.capacity)
		s.WeightedShare = millionths(weightedShare(use, r.tree.capacity, s.EffectiveWeight))
		if child.isActive() {
			s.FairShare = fair * child.weight / total
		}
		out = append(out, s)
		out = r.appendShares(out, child, depth+1, s.FairShare)
	}
	return out
}

// The function `millionths` converts a share from internal units to millionths.
func millionths(share uint64) int64 {
	hi, lo := bits.Mul64(share, ShareScale)
	return int64(hi<<(64-38) | lo>>38) // internal units have 38 binary digits
}

// JainIndex returns Jain's fairness index of the weighted shares of all active tenants,
// in thousandths. The index is 1000 if all shares are equal, and 1000/n if one of n tenants has everything. If no
// tenant is active, the index is 1000.
func JainIndex(shares []Share) int {
	var sum, squares int128
	n := int64(0)
	for _, s := range shares {
		if s.Queue != "" || s.Waiting == 0 && s.Allocated == (Resources{}) {
			continue
		}
		n++
		x := min(s.WeightedShare, 1<<32)
		sum = sum.plus(int128{0, uint64(x)})
		squares = squares.plus(multiply(x, uint64(x)))
	}
	if squares.isZero() {
		return 1000
	}
	// Shift numerator and denominator right by the same amount until the division below cannot overflow.
	top := multiply(int64(sum.lo), sum.lo)
	bottom := squares
	for top.hi != 0 || top.lo >= 1<<53 || bottom.hi != 0 || bottom.lo >= uint64(1<<62)/uint64(n) {
		top, bottom = top.shiftRight(1), bottom.shiftRight(1)
	}
	return int((top.lo*1000 + bottom.lo*uint64(n)/2) / (bottom.lo * uint64(n)))
}
