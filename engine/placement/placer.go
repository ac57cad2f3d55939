package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// Placer finds nodes and devices for the members of a job, and takes them in its
// transaction.
type Placer struct {
	Cfg     *config.Config
	Cluster *cluster.Cluster
	Scorer  *score.Scorer
	Jobs    *job.Table
	Windows *window.Calendar
	Txn     *cluster.Txn

	FeasibleScratch       cluster.Set  // result of FeasibleNodes when it differs from the request's own set
	Cycle                 int          // number of the current pass
	Epoch                 int          // rises with each pass, and when held capacity is released within one; failures are remembered for one epoch
	Placed                []PlacedJob  // jobs placed in this pass
	Offer                 ares.Placing // placing of the current job
	recordedUnschedulable bool         // RememberUnschedulable was called in this pass
	WouldDelay            bool         // the current job is skipped alone, because others of its shape may still be placed
	WindowBlocked         bool         // administrators' reservations alone block the current job
	Speculative           bool         // the accounts are not those of this pass, so failures are not remembered
}

// Close forgets what the pass placed.
func (pl *Placer) Close() {
	clear(pl.Placed)
	pl.Placed, pl.Offer = pl.Placed[:0], ares.Placing{}
}

// PlacedJob is a job that this pass has placed.
type PlacedJob struct {
	Entry *job.Entry
	Seats []ares.Seat
}

// PlaceJob takes seats for a job: as many members as fit, from the shape's MinMembers
// up to most, or none. ban is the set of models that quotas exclude. e is the job's
// entry, nil for a job that is not in the state.
func (pl *Placer) PlaceJob(sh *job.Shape, most int, ban uint64, e *job.Entry) (ares.Placing, bool) {
	pl.Windows.SetExpectedStay(e)
	return pl.placeForStay(sh, most, ban, e)
}

// placeForStay is PlaceJob with the expected stay that is set already. Nodes that are
// reserved for the job are tried first.
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

// placeAmong places a job on the allowed nodes.
func (pl *Placer) placeAmong(sh *job.Shape, r *cluster.Request, most int, e *job.Entry, allowed *cluster.Set) (ares.Placing, bool) {
	if sh.Members == 1 {
		return pl.placeSingle(sh, r, allowed)
	}
	return pl.placeGang(sh, r, most, e, allowed)
}
