package backfill

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// deviceShortage holds, for each node, the number of devices that must become free before one member of
// a request fits. The shortage is computed on first use, for one block of 64 nodes at a time.
type deviceShortage struct {
	missing     []int8      // by node position; -1 where the request is not feasible
	lowerBounds []int8      // of each block; -1 until computed
	computed    cluster.Set // blocks whose missing is computed
}

func (shortage *deviceShortage) clear(nodes int) {
	shortage.missing = slices.Grow(shortage.missing[:0], nodes)[:nodes]
	shortage.lowerBounds = slices.Grow(shortage.lowerBounds[:0], (nodes+63)/64)[:(nodes+63)/64]
	for k := range shortage.lowerBounds {
		shortage.lowerBounds[k] = -1
	}
	shortage.computed.Resize(len(shortage.lowerBounds))
}

// nodesByShortage yields the feasible nodes at positions p with lo <= p < hi and their shortages, smallest shortage
// first. It scans the nodes once for each possible shortage. Scanning is faster than sorting, because a node has
// few devices.
func (b *Round) nodesByShortage(req *cluster.Request, feasible *cluster.Set, lo, hi int) iter.Seq2[int, int] {
	return func(yield func(at, missing int) bool) {
		shortage := &b.shortage
		for missing := range min(max(req.GPUs, 1), cluster.MaxDevices) + 1 {
			for k := lo / 64; 64*k < hi; k++ {
				if shortage.lowerBounds[k] < 0 {
					shortage.lowerBounds[k] = b.Cluster.BlockMaxAt(k).MissingDevices(req)
				}
				if int(shortage.lowerBounds[k]) > missing {
					continue
				}
				if !shortage.computed.Has(k) {
					shortage.computed.Add(k)
					b.computeShortage(k, req, feasible)
				}
				for at := max(64*k, lo); at < min(64*k+64, hi); at++ {
					if int(shortage.missing[at]) == missing && !yield(at, missing) {
						return
					}
				}
			}
		}
	}
}

// computeShortage computes the shortage of the k-th block of 64 nodes. It reads only the node summaries,
// because reading every node of a large cluster would be too slow.
func (b *Round) computeShortage(k int, req *cluster.Request, feasible *cluster.Set) {
	last, mask := int32(-1), uint64(0)
	for at := 64 * k; at < min(64*k+64, len(b.Cluster.Nodes)); at++ {
		g, sp := &b.Cluster.Summaries[at], &b.Cluster.FreeCPUMem[at]
		b.shortage.missing[at] = -1
		if !g.Open || !feasible.Has(at) {
			continue
		}
		if g.Profile != last {
			last, mask = g.Profile, req.DeviceMask(b.Cluster.NodeTypes.All[g.Profile])
		}
		missing := min(max(req.GPUs-bits.OnesCount64(mask&g.Free), 0), cluster.MaxDevices)
		full := int(sp.MilliCPUs) < req.MilliCPUs || int(sp.Memory) < req.Memory || req.Milli > int(g.Part) && mask&g.Free == 0
		if missing == 0 && (full || b.Cluster.Nodes[at].RoomFor(req) == 0) {
			missing = 1 // CPUs, memory or a device share is missing
		}
		b.shortage.missing[at] = int8(missing)
	}
}
