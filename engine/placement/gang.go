package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/topology"
)

// placeGang places several members. The topology determines the domain and the nodes, and the links between
// devices determine which devices are used. Ranks follow the order of the nodes. As an exception, a rank may
// stay on its node from the last attempt.
func (pl *Placer) placeGang(sh *job.Shape, r *cluster.Request, most int, e *job.Entry, allowed *cluster.Set) (ares.Placing, bool) {
	if r.ScoreSlot == 0 && pl.Cluster.FitsNowhere(r) {
		return ares.Placing{}, false
	}
	ask := topology.Request{
		Members: most, MinMembers: sh.MinMembers, DevicesPerMember: r.GPUs, RequiredLevel: sh.Wish.Required, PreferredLevel: sh.Wish.Preferred,
		PreferredDomain: sh.Wish.Domain, Strategy: sh.Wish.Strategy, MinGbps: sh.Wish.Gbps, LatencySensitive: sh.Wish.Latency,
	}
	if allowed == &r.Constraints.Feasible.Nodes && !sh.SpreadsMembers() {
		ask.CacheKey = r.ID // otherwise the feasible nodes depend on other jobs or reservations
	}
	if e != nil && e.Run != nil {
		ask.PreviousNodes = pl.Jobs.LastNodes(e)
	}
	view := gangView{pl, r, r, pl.Scorer.RefreshScores(r), allowed, pl.crowdFor(sh), sh.SpreadsMembers()}
	picks, m, ok := pl.chooseSpread(sh, &ask, &view)
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
	m.Stranded, m.FirstFit = score.StrandedMilli(cost), pl.Cluster.FirstFitBandwidth(view.fits, allowed, total)
	seats := make([]ares.Seat, 0, total)
	for _, p := range picks {
		n := pl.Cluster.Nodes[p.Node]
		seats = pl.assignAll(n, view.fits, p.Members, seats)
		pl.Cluster.CapacityChanged(n)
	}
	e.KeepRanksInPlace(seats)
	m.Bandwidth = pl.Cluster.Bottleneck(seats)
	return ares.Placing{Seats: seats, Score: pl.Cluster.PairScore(seats), PlacementScore: m}, true
}

// chooseNodes chooses the nodes of a gang. If all members need the same model, chooseNodes searches each model
// separately, and returns the placement with the lowest cost. If two models are equally good, the model whose name
// comes first is used. When chooseNodes returns, view.fits is the request for the chosen model.
func (pl *Placer) chooseNodes(sh *job.Shape, ask *topology.Request, view *gangView) ([]topology.Assignment, ares.PlacementScore, bool) {
	domains := pl.Cluster.Domains
	if !sh.Wish.OneModel || len(pl.Cluster.ModelsPresent) < 2 {
		picks, merit, ok := domains.Choose(ask, view)
		pl.gangCost = domains.ChosenCost()
		return picks, merit, ok
	}
	models := pl.Cluster.ModelsOf(view.request)
	if len(models) < 2 {
		picks, merit, ok := domains.Choose(ask, view)
		pl.gangCost = domains.ChosenCost()
		return picks, merit, ok
	}
	var chosen *cluster.Request
	var best topology.PlacementCost
	var score ares.PlacementScore
	picks, cached := pl.modelPicks[:0], ask.CacheKey != 0
	for _, m := range models {
		view.fits = pl.Cluster.OnModel(view.request, m)
		if cached {
			ask.CacheKey = view.fits.ID
		}
		found, merit, ok := domains.Choose(ask, view)
		if !ok {
			continue
		}
		if cost := domains.ChosenCost(); chosen == nil || cost.Compare(&best) < 0 {
			chosen, best, score = view.fits, cost, merit
			picks = append(picks[:0], found...)
		}
	}
	pl.modelPicks, view.fits, pl.gangCost = picks, chosen, best
	return picks, score, chosen != nil
}

// gangView tells package topology how many members of one gang fit on each node, and at which cost.
type gangView struct {
	placer     *Placer
	request    *cluster.Request // for scores and preferences
	fits       *cluster.Request // for capacity: the request, or the request for one model only
	scores     *score.ScoreCache
	allowed    *cluster.Set
	crowd      *crowd
	onePerNode bool // no two members on one node
}

// Capacity returns how many members fit on a node now.
func (v gangView) Capacity(at int) int {
	n := v.placer.Cluster.Nodes[at]
	if !n.Schedulable() || !v.allowed.Has(at) {
		return 0
	}
	room := n.RoomFor(v.fits)
	if v.onePerNode {
		return min(room, 1)
	}
	return room
}

// Penalty returns the cost of a member on a node, plus WarmCost if the node is not preferred, plus the cost of jobs
// nearby that the gang should be spread from. If the member does not fit, the penalty is 0.
func (v gangView) Penalty(at int) int {
	if v.scores.Costs[at] == score.NoFit {
		return 0
	}
	cost := int(v.scores.Costs[at]) + v.crowd.penalty(at)
	if f := &v.request.Constraints.Feasible; f.HasPreference && !f.Preferred.Has(at) {
		cost += score.WarmCost
	}
	return cost
}
