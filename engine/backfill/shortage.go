package backfill

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// nearestNodes are the nodes of the domain where the fewest devices must become free for
// that many members. Nodes count only if they have capacity without ending an attempt
// that was placed before the cut.
func (b *Round) nearestNodes(sh *job.Shape, req *cluster.Request, feasible *cluster.Set, members int, cut int64) []*cluster.Node {
	level := ares.Level("")
	if sh.Members > 1 {
		level = sh.Wish.Required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	var best []*cluster.Node
	least := -1
	b.shortage.clear(len(b.Cluster.Nodes))
	for lo := 0; lo < len(b.Cluster.Nodes); {
		hi := len(b.Cluster.Nodes)
		if level != "" {
			_, hi = b.Cluster.Domains.EnclosingDomain(lo, level)
		}
		var nodes []*cluster.Node
		sum, capacity := 0, 0
		for at, missing := range b.nodesByShortage(req, feasible, lo, hi) {
			if extra := b.capacityWithoutRecent(b.Cluster.Nodes[at], req, cut); extra > 0 {
				nodes = append(nodes, b.Cluster.Nodes[at])
				sum, capacity = sum+missing, capacity+extra
			}
			if capacity >= members {
				break
			}
		}
		if capacity >= sh.MinMembers && (least < 0 || sum < least) {
			best, least = nodes, sum
		}
		lo = hi
	}
	return best
}

// deviceShortage is the number of devices that must become free on each node for one
// member of a request. It is computed for blocks of 64 nodes, on first use.
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

// nodesByShortage yields the feasible nodes from lo up to hi with their shortage, the
// smallest first. It scans once for each possible shortage: a node has few devices, so
// that is faster than sorting.
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

// computeShortage computes the shortage of the k-th block of 64 nodes. It reads the
// node summaries: in a large cluster it must not touch each node itself.
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
		full := int(sp.CPUs) < req.CPUs || int(sp.Memory) < req.Memory || req.Milli > int(g.Part) && mask&g.Free == 0
		if missing == 0 && (full || b.Cluster.Nodes[at].RoomFor(req) == 0) {
			missing = 1 // CPUs, memory or a device share is missing
		}
		b.shortage.missing[at] = int8(missing)
	}
}
