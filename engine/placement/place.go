package placement

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/topology"
)

// PlaceJob takes seats for the job's members, as many as fit between the least it
// can start with and most, or takes nothing. e is the job's entry, nil for one
// the state does not know.
func (pl *Placer) PlaceJob(sh *job.Shape, most int, ban uint64, e *job.Entry) (ares.Placing, bool) {
	pl.Windows.SetExpectedStay(e)
	return pl.placeForStay(sh, most, ban, e)
}

// placeForStay is place for as long a stay as was said before.
func (pl *Placer) placeForStay(sh *job.Shape, most int, ban uint64, e *job.Entry) (ares.Placing, bool) {
	r := pl.Cluster.WithoutModels(sh.Request, ban)
	allowed, ok := pl.FeasibleNodes(sh, r)
	if !ok || pl.Cluster.ExceedsLeafLimit(r) {
		return ares.Placing{}, false
	}
	if len(pl.Windows.Windows) > 0 {
		if own, some := pl.Windows.ReservedForOwn(sh, allowed); some {
			if p, seated := pl.placeAmong(sh, r, most, e, own); seated {
				return p, true
			}
		}
	}
	return pl.placeAmong(sh, r, most, e, allowed)
}

// placeAmong is seat on the allowed nodes.
func (pl *Placer) placeAmong(sh *job.Shape, r *cluster.Request, most int, e *job.Entry, allowed *cluster.Set) (ares.Placing, bool) {
	if sh.Members == 1 {
		return pl.placeSingle(sh, r, allowed)
	}
	return pl.placeGang(sh, r, most, e, allowed)
}

// placeSingle takes the seat of a job of one member.
func (pl *Placer) placeSingle(sh *job.Shape, r *cluster.Request, allowed *cluster.Set) (ares.Placing, bool) {
	if allowed == &r.Constraints.Feasible.Nodes && r.FailedEpoch == pl.Epoch && !pl.Speculative {
		return ares.Placing{}, false // what one asked in vain in this decision, the next asks in vain
	}
	n := pl.bestSingleNode(sh, r, allowed)
	if n == nil {
		if allowed == &r.Constraints.Feasible.Nodes && !pl.Speculative {
			r.FailedEpoch = pl.Epoch
		}
		return ares.Placing{}, false
	}
	m := ares.Merit{Level: ares.LevelNode, Domain: n.ID}
	if !r.AnyNodeDoes {
		m.Stranded = score.StrandedMilli(pl.Scorer.FragmentationCost(r, n) - score.HistoryPenalty(n))
	}
	if r.GPUs > 1 {
		m.FirstFit = n.Type.Links.BottleneckMBps(n.Type.Links.FirstFit(r.DeviceMask(n.Type)&n.Free, r.GPUs))
	}
	before := n.Free
	seats := []ares.Seat{pl.assign(n, r, 0)}
	if r.GPUs > 1 {
		m.Bandwidth = n.Type.Links.BottleneckMBps(before &^ n.Free)
	}
	pl.Cluster.CapacityChanged(n)
	return ares.Placing{Seats: seats, Score: pl.Cluster.PairScore(seats), Merit: m}, true
}

// bestSingleNode finds the node for a job of one member: in the domain it prefers, then
// where nothing speaks against, then anywhere it may go.
func (pl *Placer) bestSingleNode(sh *job.Shape, r *cluster.Request, allowed *cluster.Set) *cluster.Node {
	liked := allowed
	if r.Constraints.Feasible.HasPreference {
		liked = pl.Cluster.PreferredNodes(&r.Constraints.Feasible, allowed)
	}
	for _, in := range [2]*cluster.Set{liked, allowed} {
		for i := 0; ; i++ {
			lo, hi, ok := pl.Cluster.Domains.NamedDomain(sh.Wish.Domain, i)
			if !ok {
				break
			}
			if n := pl.Scorer.BestNode(r, in, lo, hi); n != nil {
				return n
			}
		}
	}
	if n := pl.Scorer.BestNode(r, liked, 0, len(pl.Cluster.Nodes)); n != nil || liked == allowed {
		return n
	}
	return pl.Scorer.BestNode(r, allowed, 0, len(pl.Cluster.Nodes))
}

// placeGang takes seats for several members: the domain is chosen by the topology,
// the devices by their links. Ranks follow the order of the nodes, but for those
// that can stay where they were.
func (pl *Placer) placeGang(sh *job.Shape, r *cluster.Request, most int, e *job.Entry, allowed *cluster.Set) (ares.Placing, bool) {
	if r.ScoreSlot == 0 && pl.Cluster.FitsNowhere(r) {
		return ares.Placing{}, false
	}
	ask := topology.Request{
		Members: most, MinMembers: sh.MinMembers, DevicesPerMember: r.GPUs, RequiredLevel: sh.Wish.Required, PreferredLevel: sh.Wish.Preferred,
		PreferredDomain: sh.Wish.Domain, Strategy: sh.Wish.Strategy, MinGbps: sh.Wish.Gbps, LatencySensitive: sh.Wish.Latency,
	}
	if allowed == &r.Constraints.Feasible.Nodes && !sh.SpreadsMembers() {
		ask.CacheKey = r.ID // else other jobs decide where it may go
	}
	if e != nil && e.Run != nil {
		ask.PreviousNodes = pl.Jobs.LastNodes(e)
	}
	view := gangView{pl, r, pl.Scorer.RefreshScores(r), allowed, sh.SpreadsMembers()}
	picks, m, ok := pl.Cluster.Domains.Choose(&ask, view)
	if !ok {
		return ares.Placing{}, false
	}
	if m.Level == ares.LevelNode {
		m.Domain = pl.Cluster.Nodes[picks[0].Node].ID
	}
	total := 0
	var cost int64
	for _, p := range picks {
		total += p.Members
		cost += (view.scores.Costs[p.Node] - score.HistoryPenalty(pl.Cluster.Nodes[p.Node])) * int64(p.Members)
	}
	m.Stranded, m.FirstFit = score.StrandedMilli(cost), pl.Cluster.FirstFitBandwidth(r, allowed, total)
	seats := make([]ares.Seat, 0, total)
	for _, p := range picks {
		n := pl.Cluster.Nodes[p.Node]
		seats = pl.assignAll(n, r, p.Members, seats)
		pl.Cluster.CapacityChanged(n)
	}
	e.KeepRanksInPlace(seats)
	m.Bandwidth = pl.Cluster.Bottleneck(seats)
	return ares.Placing{Seats: seats, Score: pl.Cluster.PairScore(seats), Merit: m}, true
}

// gangView is what the topology may ask about the nodes for one gang.
type gangView struct {
	placer   *Placer
	request *cluster.Request
	scores  *score.ScoreCache
	allowed *cluster.Set
	onePerNode   bool // no two members on a node
}

// Capacity is how many members the node can take now.
func (v gangView) Capacity(at int) int {
	n := v.placer.Cluster.Nodes[at]
	if !n.Schedulable() || !v.allowed.Has(at) {
		return 0
	}
	room := n.RoomFor(v.request)
	if v.onePerNode {
		return min(room, 1)
	}
	return room
}

// Penalty is what a member there would strand.
func (v gangView) Penalty(at int) int {
	if v.scores.Costs[at] == score.NoFit {
		return 0
	}
	cost := int(v.scores.Costs[at])
	if f := &v.request.Constraints.Feasible; f.HasPreference && !f.Preferred.Has(at) {
		cost += score.WarmCost
	}
	return cost
}
