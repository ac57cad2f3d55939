package baseline

import (
	"math"
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/config"
)

// The type `fgd` is the placement policy "fragmentation gradient descent". It chooses the node where the
// placement least reduces the capacity that typical jobs can use (Weng and others, USENIX ATC 2023).
type fgd struct {
	baseline
	byType []fgdWorkload                      // by ID of the node type
	scores map[*cluster.Request][]cachedScore // by node position
}

// Device returns the device that has the best score for a share. The score is computed again, because other members
// of the gang may have been placed since the node was scored. The default rule chooses if the share fits on no device.
func (p *fgd) Device(r *cluster.Request, n *cluster.Node) uint64 {
	score, device := p.score(r, n)
	if score < 0 {
		return 0
	}
	return 1 << device
}

// typicalDemand describes the resources that a typical job needs on a node.
type typicalDemand struct {
	devices int
	each    int // thousandths of each device
	cpus    int
	count   int64
}

// The method `demands` returns the typical jobs that could run on an idle node of the given type. It also returns
// the number of typical jobs that can never use the node's devices, and the total number of typical jobs. If no
// typical jobs are configured, they are derived from the workload mix.
func (p *fgd) demands(typ *cluster.NodeType) (list []typicalDemand, never, total int64) {
	typical := p.cfg.Typical
	if len(typical) == 0 {
		mix := p.cfg.Mix
		if len(mix) == 0 {
			mix = config.DefaultMix()
		}
		for _, m := range mix {
			share := typ.MilliCPUs / 1000 * m.CPUs / 100 * max(m.GPUs*cluster.WholeMilli, m.Milli) / (max(len(typ.Devices), 1) * cluster.WholeMilli)
			typical = append(typical, config.TypicalJob{GPUs: m.GPUs, Milli: m.Milli, CPUs: share, Count: m.Weight})
		}
	}
	for _, t := range typical {
		total += int64(t.Count)
		k := typicalDemand{devices: t.GPUs, each: cluster.WholeMilli, cpus: t.CPUs, count: int64(t.Count)}
		if t.Milli > 0 {
			k.devices, k.each = 1, t.Milli
		}
		if k.devices == 0 || !typ.HasModel(t.Model) {
			never += k.count
		} else {
			list = append(list, k)
		}
	}
	return list, never, total
}

// fgdWorkload holds the needs of the typical jobs, computed for nodes of one type.
type fgdWorkload struct {
	known bool
	kinds []typicalDemand
	never int64 // count of typical jobs that can never use its devices
	total int64
}

// maxFGDRequests is the maximum number of requests whose scores are cached.
const maxFGDRequests = 1024

// cachedScore is the score of a node for a request. A cached score is valid while the node's change count stays the
// same.
type cachedScore struct{ changes, score int }

// Score returns a higher number if placing one member makes the node less fragmented. A score of 50 means that the
// placement does not change the fragmentation. Score caches its result until the node changes, because a decision
// changes only a few nodes.
func (p *fgd) Score(r *cluster.Request, n *cluster.Node) int {
	scores := p.scores[r]
	if len(scores) < len(p.cluster.Nodes) {
		if len(p.scores) >= maxFGDRequests || p.scores == nil {
			p.scores = map[*cluster.Request][]cachedScore{}
		}
		scores = make([]cachedScore, len(p.cluster.Nodes))
		p.scores[r] = scores
	}
	t := &scores[n.Pos]
	if t.changes != n.Changes {
		t.score, _ = p.score(r, n)
		t.changes = n.Changes
	}
	return t.score
}

// The method `score` computes the score that a node would have if the member were placed on it. For a
// share, the method tries each device and also returns the device with the best score.
func (p *fgd) score(r *cluster.Request, n *cluster.Node) (score, device int) {
	var buffer [cluster.MaxDevices]int
	left := buffer[:len(n.Devices)]
	for m := n.Usable; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		left[i] = n.FreeMilliOf(i)
	}
	for len(p.byType) <= n.Type.ID {
		p.byType = append(p.byType, fgdWorkload{})
	}
	e := &p.byType[n.Type.ID]
	if !e.known {
		e.kinds, e.never, e.total = p.demands(n.Type)
		e.known = true
	}
	cpus := (n.Type.MilliCPUs - n.MilliCPUs) / 1000
	before := e.fragmentation(cpus, left)
	after := func() int { return fgdSteps(before-e.fragmentation(cpus-ares.RoundUpCPUs(r.MilliCPUs), left), e.total) }
	mask := r.DeviceMask(n.Type) & n.Usable
	if r.Milli == 0 {
		for need, m := r.GPUs, n.Free&mask; need > 0; need, m = need-1, m&(m-1) {
			left[bits.TrailingZeros64(m)] = 0
		}
		return after(), 0
	}
	score = -1
	// Only devices that the request may use are tried: an equal device of another model stands for none of them.
	var tried [cluster.MaxDevices]int
	count := 0
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		if left[i] < r.Milli || slices.Contains(tried[:count], left[i]) {
			continue // the share does not fit, or the device is equal to one that was tried
		}
		tried[count], count = left[i], count+1
		left[i] -= r.Milli
		if v := after(); v > score {
			score, device = v, i
		}
		left[i] += r.Milli
	}
	return score, device
}

// The method `fragmentation` computes, for each typical job, the free capacity that the job cannot use,
// in thousandths of a device. The result is the sum over all typical jobs.
func (e *fgdWorkload) fragmentation(cpus int, left []int) int64 {
	free := 0
	for _, l := range left {
		free += l
	}
	if free == 0 {
		return 0
	}
	sum := e.never * int64(free)
	for i := range e.kinds {
		k := &e.kinds[i]
		lost, fit := 0, 0
		for _, l := range left {
			if l < k.each {
				lost += l
			} else {
				fit++
			}
		}
		if fit < k.devices || cpus < k.cpus {
			lost = free
		}
		sum += int64(lost) * k.count
	}
	return sum
}

// fgdThresholds lists the reductions of fragmentation at which the score rises by one. The thresholds follow the
// logistic curve, in millionths of a device.
var fgdThresholds = func() (out [topScore - 1]int64) {
	for i := range out {
		p := float64(i+1) / topScore
		out[i] = int64(math.Round(1e6 * math.Log(p/(1-p))))
	}
	return out
}()

// fgdSteps converts a reduction of fragmentation to a score.
func fgdSteps(gain, total int64) int {
	if total == 0 {
		return topScore / 2
	}
	at, _ := slices.BinarySearchFunc(fgdThresholds[:], gain*1000, func(rise, gain int64) int {
		if rise*total <= gain {
			return -1
		}
		return 1
	})
	return at
}
