package preempt

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// partialSelection is a set of victims that is not complete yet.
type partialSelection struct {
	capacity     []int32 // by node position: members that fit without the evicted jobs
	queue        []nodeCost
	costs        []partialCost // scratch of lowerBound
	evicted      []*candidateVictim
	newlyEvicted int // evicted[newlyEvicted:] are not counted in capacity yet
}

// domainRange is a range of nodes that must hold the whole job. A domainRange also holds the estimated cost
// of freeing enough capacity on these nodes.
type domainRange struct {
	lo, hi   int
	estimate int64
}

// maxSearchedDomains is the maximum number of domains in which victims are selected.
const maxSearchedDomains = 8

// domainsToSearch returns those domains of the required level that could have capacity. The domain with the lowest
// estimated cost comes first. If no level is required, the only domain is the whole cluster.
func (s *victimSearch) domainsToSearch(model costModel) []domainRange {
	level := s.shape.Wish.Required
	if level == "" || s.shape.Members == 1 {
		return []domainRange{{0, len(s.round.Cluster.Nodes), 0}}
	}
	var out []domainRange
	for i := 0; i < len(s.index.nodes); {
		lo, hi := s.round.Cluster.Domains.EnclosingDomain(s.index.nodes[i].node.Pos, level)
		from := i
		for i < len(s.index.nodes) && s.index.nodes[i].node.Pos < hi {
			i++
		}
		if domain := (domainRange{lo, hi, 0}); s.canClear(&domain, s.index.nodes[from:i], model) {
			out = append(out, domain)
		}
	}
	slices.SortFunc(out, func(a, b domainRange) int { return cmp.Or(cmp.Compare(a.estimate, b.estimate), a.lo-b.lo) })
	return out[:min(len(out), maxSearchedDomains)]
}

// canClear assumes that all eligible jobs in a domain are stopped. It reports whether the domain then has
// enough capacity for the waiting job, and estimates the cost of these stops.
func (s *victimSearch) canClear(domain *domainRange, candidates []candidateNode, model costModel) bool {
	missing := s.shape.MinMembers
	for i := domain.lo; i < domain.hi; i++ {
		missing -= int(s.index.capacity[i])
	}
	var bounds []int64
	for i := range candidates {
		candidate := &candidates[i]
		for _, v := range s.victimsAt(candidate, model) {
			v.victim.chosen = false
		}
		more := candidate.node.RoomWithout(s.index.request, SeatsOf(s.victimsAt(candidate, model))) - int(s.index.capacity[candidate.node.Pos])
		bound, ok := s.lowerBound(candidate, model)
		for k := 0; ok && k < more; k++ {
			bounds = append(bounds, bound)
		}
	}
	if len(bounds) < missing {
		return false
	}
	slices.Sort(bounds)
	for _, b := range bounds[:max(missing, 0)] {
		domain.estimate += b
	}
	return true
}

// nodeCost holds a candidate node in the heap, and the cost of one more member on this node.
type nodeCost struct {
	candidate int
	cost      int64 // of one more member, a lower bound unless isExact
	isExact   bool
}

// nodeCostQueue is a heap of candidate nodes, the cheapest on top.
type nodeCostQueue []nodeCost

func (q *nodeCostQueue) Len() int { return len(*q) }

func (q *nodeCostQueue) Less(i, j int) bool {
	a, b := &(*q)[i], &(*q)[j]
	return cmp.Or(cmp.Compare(a.cost, b.cost), a.candidate-b.candidate) < 0
}

func (q *nodeCostQueue) Swap(i, j int) { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

func (q *nodeCostQueue) Push(x any) { *q = append(*q, x.(nodeCost)) }

func (q *nodeCostQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// selectVictims selects victims in a domain until the minimum number of members fits. If selectVictims returns
// true, it has released the victims' seats in the transaction.
func (s *victimSearch) selectVictims(domain domainRange, model costModel) bool {
	total := s.resetSelection(domain)
	q := (*nodeCostQueue)(&s.partial.queue)
	*q = (*q)[:0]
	for i := range s.index.nodes {
		if at := s.index.nodes[i].node.Pos; at >= domain.lo && at < domain.hi {
			if bound, ok := s.lowerBound(&s.index.nodes[i], model); ok {
				*q = append(*q, nodeCost{i, bound, false})
			}
		}
	}
	heap.Init(q)
	for total < s.shape.MinMembers {
		if len(*q) == 0 {
			return false
		}
		next := heap.Pop(q).(nodeCost)
		candidate := &s.index.nodes[next.candidate]
		if !next.isExact || candidate.changes != candidate.node.Changes {
			if cost, ok := s.cheapestEviction(candidate, model, s.shape.MinMembers-total); ok {
				heap.Push(q, nodeCost{next.candidate, cost, true})
			}
			continue
		}
		if !s.evictFrom(candidate) {
			continue
		}
		total = s.updateCapacity(domain, total, model)
	}
	return true
}

// resetSelection starts a new set of victims, and returns the number of members that already fit.
func (s *victimSearch) resetSelection(domain domainRange) (total int) {
	s.round.Txn.Undo(s.base)
	s.partial.evicted = s.partial.evicted[:0]
	for i := range s.index.seats {
		s.index.seats[i].victim.chosen = false
	}
	s.resetReclaim()
	s.partial.capacity = append(s.partial.capacity[:0], s.index.capacity...)
	for i := domain.lo; i < domain.hi; i++ {
		total += int(s.index.capacity[i])
	}
	for i := range s.index.nodes {
		s.index.nodes[i].changes = -1
	}
	return total
}

// evictFrom adds the cheapest jobs of a node to the set. evictFrom returns false if these
// jobs together hold more than the borrowed quota.
func (s *victimSearch) evictFrom(candidate *candidateNode) bool {
	from := len(s.partial.evicted)
	for _, nv := range candidate.evict {
		v := nv.victim
		if !s.reclaim(v) {
			for _, back := range s.partial.evicted[from:] {
				back.chosen = false
				for _, p := range back.borrowedParts {
					s.quota.borrowed[p.quota].unreclaimed += p.milli
				}
			}
			s.partial.evicted = s.partial.evicted[:from]
			return false
		}
		v.chosen = true
		s.partial.evicted = append(s.partial.evicted, v)
	}
	for _, v := range s.partial.evicted[from:] {
		s.round.Place.ReleaseJob(v.entry)
	}
	s.partial.newlyEvicted = from
	return true
}

// updateCapacity counts the members that fit after the last evictions. updateCapacity also adds the nodes of the
// evicted jobs to the heap again, because one more member may be cheaper there now.
func (s *victimSearch) updateCapacity(domain domainRange, total int, model costModel) int {
	q := (*nodeCostQueue)(&s.partial.queue)
	for _, v := range s.partial.evicted[s.partial.newlyEvicted:] {
		a := v.entry.Run.Current()
		for i := range a.Seats {
			n := s.round.Cluster.NodesByID[a.Seats[i].Node]
			if n == nil || n.Pos < domain.lo || n.Pos >= domain.hi || s.index.nodeAt[n.Pos] == 0 {
				continue
			}
			capacity := int32(n.RoomFor(s.index.request))
			total += int(capacity - s.partial.capacity[n.Pos])
			s.partial.capacity[n.Pos] = capacity
			at := int(s.index.nodeAt[n.Pos]) - 1
			if bound, ok := s.lowerBound(&s.index.nodes[at], model); ok {
				heap.Push(q, nodeCost{at, bound, false})
			}
		}
	}
	return total
}

// partialCost holds the amount that a job holds on a node, and the cost of stopping the job.
type partialCost struct{ cost, milli int64 }

// lowerBound returns a lower bound for the cost of one more member on a node. It adds up the costs of the
// cheapest devices until enough devices are free. For this sum, jobs are treated as if they could be stopped in
// parts. If the remaining eligible jobs on the node are not enough, lowerBound returns false.
func (s *victimSearch) lowerBound(candidate *candidateNode, model costModel) (int64, bool) {
	n, req := candidate.node, s.index.request
	parts, least := s.partial.costs[:0], int64(1<<62)
	for i := candidate.firstSeat; i < candidate.endSeat; i++ {
		cs := &s.index.seats[i]
		if cs.victim.chosen || !s.mayReclaim(cs.victim) {
			continue
		}
		cost := model.costOf(cs.victim, cs.milli)
		least = min(least, cost)
		parts = append(parts, partialCost{cost, cs.milli})
	}
	s.partial.costs = parts
	if len(parts) == 0 || req.GPUs == 0 {
		return least, len(parts) > 0
	}
	free := bits.OnesCount64(req.DeviceMask(n.Type) & n.Free)
	missing := int64(req.GPUs-free%req.GPUs) * cluster.WholeMilli
	if free/req.GPUs > n.CPUMemSlots(req.MilliCPUs, req.Memory) {
		return least, true // CPUs or memory are missing, not devices
	}
	slices.SortFunc(parts, func(a, b partialCost) int {
		return cmp.Compare(a.cost<<8/max(a.milli, 1), b.cost<<8/max(b.milli, 1))
	})
	sum := int64(0)
	for _, part := range parts {
		switch {
		case part.milli == 0:
		case part.milli < missing:
			sum, missing = sum+part.cost, missing-part.milli
		default:
			return max(least, sum+part.cost/part.milli*missing), true
		}
	}
	return 0, false // all of them are not enough
}

// maxNodeVictims is the maximum number of jobs that are considered on one node. If a node has more jobs, only the
// cheapest are considered.
const maxNodeVictims = 64

// victimsAt returns the eligible jobs on a node, cheapest first. Each result lists all seats that the job has
// on this node.
func (s *victimSearch) victimsAt(candidate *candidateNode, model costModel) []NodeVictim {
	var out []NodeVictim
	for i := candidate.firstSeat; i < candidate.endSeat; i++ {
		cs := &s.index.seats[i]
		if cs.victim.chosen || !s.mayReclaim(cs.victim) {
			continue
		}
		at := slices.IndexFunc(out, func(o NodeVictim) bool { return o.Entry == cs.victim.entry })
		if at < 0 {
			at = len(out)
			out = append(out, NodeVictim{Entry: cs.victim.entry, victim: cs.victim})
		}
		out[at].Seats = append(out[at].Seats, cs.seat)
		out[at].Milli += int(cs.milli)
	}
	slices.SortFunc(out, func(a, b NodeVictim) int {
		return cmp.Or(cmp.Compare(model.costOf(a.victim, int64(a.Milli)), model.costOf(b.victim, int64(b.Milli))), byCost(a.victim, b.victim))
	})
	return out[:min(len(out), maxNodeVictims)]
}

// cheapestEviction finds the cheapest jobs whose stop frees capacity for one more member
// on a node. It compares single jobs with sets of jobs that are chosen by cost or by cost
// per device. The result is the cost per member.
func (s *victimSearch) cheapestEviction(candidate *candidateNode, model costModel, missing int) (int64, bool) {
	n, req := candidate.node, s.index.request
	all := s.victimsAt(candidate, model)
	capacity, best := n.RoomFor(req), int64(1<<62)
	candidate.changes, candidate.evict, candidate.gain = n.Changes, nil, 0
	consider := func(evict []NodeVictim, cost int64) {
		gain := n.RoomWithout(req, SeatsOf(evict)) - capacity
		if gain = min(gain, missing); gain > 0 && cost/int64(gain) < best {
			best, candidate.evict, candidate.gain = cost/int64(gain), slices.Clone(evict), gain
		}
	}
	for i := range all {
		consider(all[i:i+1], model.costOf(all[i].victim, int64(all[i].Milli)))
	}
	if len(all) > 1 {
		s.evictSeveral(n, all, model, capacity, consider)
		slices.SortStableFunc(all, func(a, b NodeVictim) int {
			x, y := model.costOf(a.victim, int64(a.Milli)), model.costOf(b.victim, int64(b.Milli))
			return cmp.Compare(x<<8/int64(max(a.Milli, 1)), y<<8/int64(max(b.Milli, 1)))
		})
		s.evictSeveral(n, all, model, capacity, consider)
	}
	return best, candidate.evict != nil
}

// evictSeveral takes jobs from the start of a list until together they free capacity for one more member.
// Then it drops the jobs that are not needed, starting with the last one taken.
func (s *victimSearch) evictSeveral(n *cluster.Node, all []NodeVictim, model costModel, capacity int, consider func([]NodeVictim, int64)) {
	lo, hi := 1, len(all) // lo jobs or fewer are not enough, hi jobs are enough
	if n.RoomWithout(s.index.request, SeatsOf(all)) <= capacity {
		return
	}
	for lo < hi {
		if mid := (lo + hi) / 2; n.RoomWithout(s.index.request, SeatsOf(all[:mid])) > capacity {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	evict := slices.Clone(all[:hi])
	for i := len(evict) - 2; i >= 0; i-- { // the last job is needed, because there was not enough without it
		if rest := slices.Delete(slices.Clone(evict), i, i+1); n.RoomWithout(s.index.request, SeatsOf(rest)) > capacity {
			evict = rest
		}
	}
	cost := int64(0)
	for _, v := range evict {
		cost += model.costOf(v.victim, int64(v.Milli))
	}
	consider(evict, cost)
}
