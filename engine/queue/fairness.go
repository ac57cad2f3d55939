package queue

import (
	"math/bits"
	"time"
)

// Share is how a tenant or a queue stands. Shares are in millionths of the fleet.
type Share struct {
	Tenant   string
	Queue    string // "" for the tenant
	Depth    int    // 0 for a tenant
	Weight   int64  // thousandths
	Pull     int64  // what the weight comes to where it follows past use; else the weight
	Live     Use
	Past     Use
	Waiting  int
	Dominant int64    // of live and past use together
	Of       Resource // the dominant one
	Weighted int64    // Dominant divided by the weight
	// Fair is what its weight entitles it to beside the siblings that hold
	// something or wait, of what the node above it is entitled to.
	Fair int64
}

// Million is a whole share as Fairness writes it.
const Million = 1_000_000

// Fairness is how every tenant and queue stands at now: tenants by name, each
// followed by its queues.
func (t *Tree[J]) Fairness(now time.Time) []Share {
	t.rebuild()
	w := shareReader[J]{tree: t}
	if t.cfg.HalfLife > 0 {
		w.moment = t.cfg.momentOf(now)
		w.adjustment = t.weightAdjustment(w.moment)
	}
	return w.appendShares(nil, t.root, 0, Million)
}

func (w *shareReader[J]) appendShares(out []Share, n *node[J], depth int, fair int64) []Share {
	total := int64(0)
	for _, k := range n.children {
		if k.isActive() {
			total += k.weight
		}
	}
	for _, k := range n.children {
		if k.leaf != nil {
			continue
		}
		s := Share{Tenant: k.tenant, Queue: k.queue, Depth: depth, Weight: k.weight, Live: k.allocated, Waiting: k.waiting}
		if w.tree.cfg.HalfLife > 0 {
			s.Past = k.history.averageAt(w.moment)
		}
		use := s.Live.Add(s.Past, 1)
		best, of := dominantShare(use, w.tree.capacity)
		s.Of = of
		s.Dominant = millionths(best / 1000)
		s.Pull = effectiveWeight(&w.adjustment, k, s.Past, w.tree.capacity)
		s.Weighted = millionths(best / uint64(s.Pull))
		if k.isActive() {
			s.Fair = fair * k.weight / total
		}
		out = append(out, s)
		out = w.appendShares(out, k, depth+1, s.Fair)
	}
	return out
}

// isActive says whether a node takes part in the division.
func (n *node[J]) isActive() bool { return n.waiting > 0 || n.allocated != Use{} }

func millionths(share uint64) int64 {
	hi, lo := bits.Mul64(share, Million)
	return int64(hi<<(64-38) | lo>>38) // share is in units of One
}

// Jain is Jain's index of the weighted shares of the tenants that hold something
// or wait, in thousandths: 1000 when all have the same, 1000/n when one of n has
// everything. Without such tenants it is 1000.
func Jain(shares []Share) int {
	var sum, squares int128
	n := int64(0)
	for _, s := range shares {
		if s.Queue != "" || s.Waiting == 0 && s.Live == (Use{}) {
			continue
		}
		n++
		x := min(s.Weighted, 1<<32)
		sum = sum.plus(int128{0, uint64(x)})
		squares = squares.plus(multiply(x, uint64(x)))
	}
	if squares.isZero() {
		return 1000
	}
	// Both sides shortened alike until they fit.
	top := multiply(int64(sum.lo), sum.lo)
	bottom := squares
	for top.hi != 0 || top.lo >= 1<<53 || bottom.hi != 0 || bottom.lo >= uint64(1<<62)/uint64(n) {
		top, bottom = top.shiftRight(1), bottom.shiftRight(1)
	}
	return int((top.lo*1000 + bottom.lo*uint64(n)/2) / (bottom.lo * uint64(n)))
}
