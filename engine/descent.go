package engine

import (
	"math"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/config"
)

// typicalDemand is what a typical job needs of a node of a profile.
type typicalDemand struct {
	devices int
	each    int // thousandths of each
	cpus    int
	count   int64
}

// fgdDemands are the typical jobs that a machine of a profile could take if it were
// empty, and how many could never use one of its devices. Without a list, the
// mix is what is expected.
func (sc *Scorer) fgdDemands(p *nodeType) (list []typicalDemand, never, total int64) {
	typical := sc.cfg.Typical
	if len(typical) == 0 {
		mix := sc.cfg.Mix
		if len(mix) == 0 {
			mix = config.DefaultMix()
		}
		for _, m := range mix {
			share := p.cpus * m.CPUs / 100 * max(m.GPUs*WholeMilli, m.Milli) / (max(len(p.devices), 1) * WholeMilli)
			typical = append(typical, config.TypicalJob{GPUs: m.GPUs, Milli: m.Milli, CPUs: share, Count: m.Weight})
		}
	}
	for _, t := range typical {
		total += int64(t.Count)
		k := typicalDemand{devices: t.GPUs, each: WholeMilli, cpus: t.CPUs, count: int64(t.Count)}
		if t.Milli > 0 {
			k.devices, k.each = 1, t.Milli
		}
		if k.devices == 0 || !p.hasModel(t.Model) {
			never += k.count
		} else {
			list = append(list, k)
		}
	}
	return list, never, total
}

// fgdWorkload is the typical jobs as machines of one profile see them.
type fgdWorkload struct {
	known bool
	kinds []typicalDemand
	never int64
	total int64
}

// maxFGDRequests is for how many requests scores are kept.
const maxFGDRequests = 1024

// cachedScore is the score of a want on a node, as of the node's last change.
type cachedScore struct{ changes, score int }

// cachedFGDScore is how much less fragmented a node is with a member of the want, in
// steps: 50 for no difference. It is kept until the node changes: a decision
// changes one of thousands.
func (sc *Scorer) cachedFGDScore(w *request, n *node) int {
	scores := sc.fgdScores[w]
	if len(scores) < len(sc.cluster.nodes) {
		if len(sc.fgdScores) >= maxFGDRequests || sc.fgdScores == nil {
			sc.fgdScores = map[*request][]cachedScore{}
		}
		scores = make([]cachedScore, len(sc.cluster.nodes))
		sc.fgdScores[w] = scores
	}
	t := &scores[n.pos]
	if t.changes != n.changes {
		t.score, _ = sc.fgdScore(w, n)
		t.changes = n.changes
	}
	return t.score
}

// fgdScore takes the want off the node, for a share off each device in turn: the
// score, and the device that gives it.
func (sc *Scorer) fgdScore(w *request, n *node) (score, device int) {
	var places [MaxDevices]int
	left := places[:len(n.devices)]
	for m := n.usable; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		left[i] = n.freeMilliOf(i)
	}
	for len(sc.fgdByType) <= n.typ.id {
		sc.fgdByType = append(sc.fgdByType, fgdWorkload{})
	}
	e := &sc.fgdByType[n.typ.id]
	if !e.known {
		e.kinds, e.never, e.total = sc.fgdDemands(n.typ)
		e.known = true
	}
	cpus := n.typ.cpus - n.cpus
	before := e.fragmentation(cpus, left)
	after := func() int { return fgdSteps(before-e.fragmentation(cpus-w.cpus, left), e.total) }
	mask := w.deviceMask(n.typ) & n.usable
	if w.milli == 0 {
		for need, m := w.gpus, n.free&mask; need > 0; need, m = need-1, m&(m-1) {
			left[bits.TrailingZeros64(m)] = 0
		}
		return after(), 0
	}
	score = -1
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		if left[i] < w.milli || slices.Contains(left[:i], left[i]) {
			continue // no room, or as good as the one before
		}
		left[i] -= w.milli
		if v := after(); v > score {
			score, device = v, i
		}
		left[i] += w.milli
	}
	return score, device
}

// fragmentation is how much of what is left typical jobs could not use, in
// thousandths of devices by their count.
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

// fgdThresholds are where the score of a descent goes up by one: the logistic curve over
// devices, in millionths, as whole numbers.
var fgdThresholds = func() (out [maxPolicyScore - 1]int64) {
	for i := range out {
		p := float64(i+1) / maxPolicyScore
		out[i] = int64(math.Round(1e6 * math.Log(p/(1-p))))
	}
	return out
}()

// fgdSteps is the score of a gain.
func fgdSteps(gain, total int64) int {
	if total == 0 {
		return maxPolicyScore / 2
	}
	at, _ := slices.BinarySearchFunc(fgdThresholds[:], gain*1000, func(rise, gain int64) int {
		if rise*total <= gain {
			return -1
		}
		return 1
	})
	return at
}
