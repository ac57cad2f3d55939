package placement

import (
	"time"

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

	At                    time.Time    // when jobs of this pass would start: administrators' reservations count as of then
	FeasibleScratch       cluster.Set  // result of FeasibleNodes when it differs from the request's own set
	Cycle                 int          // number of the current pass
	Epoch                 int          // rises with each pass, and when held capacity is released within one; failures are remembered for one epoch
	Placed                []PlacedJob  // jobs placed in this pass
	Offer                 ares.Placing // placing of the current job
	recordedUnschedulable bool         // RememberUnschedulable was called in this pass
	WouldDelay            bool         // the current job is skipped alone, because others of its shape may still be placed
	WindowBlocked         bool         // administrators' reservations alone block the current job
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

// StayOf is the stay of a job that starts in this pass.
func (pl *Placer) StayOf(e *job.Entry) window.Stay { return pl.Windows.StayOf(e, pl.At) }

// PlaceJob takes seats for a job: as many members as fit, from the shape's MinMembers
// up to most, or none. ban is the set of models that quotas exclude. e is the job's
// entry, nil for a job that is not in the state. A request that fits nowhere is
// remembered for this epoch.
func (pl *Placer) PlaceJob(sh *job.Shape, most int, ban uint64, e *job.Entry, stay window.Stay) (ares.Placing, bool) {
	return pl.place(sh, most, ban, e, stay, false)
}

// TryPlace is PlaceJob while the accounts are not those of this pass, because jobs are
// assumed to have left or to have come: failures are neither remembered nor believed.
func (pl *Placer) TryPlace(sh *job.Shape, most int, ban uint64, e *job.Entry, stay window.Stay) (ares.Placing, bool) {
	return pl.place(sh, most, ban, e, stay, true)
}

// place tries the nodes that are reserved for the job first.
func (pl *Placer) place(sh *job.Shape, most int, ban uint64, e *job.Entry, stay window.Stay, speculative bool) (ares.Placing, bool) {
	r := pl.Cluster.WithoutModels(sh.Request, ban)
	allowed, ok := pl.FeasibleNodes(sh, r, stay)
	if !ok || pl.Cluster.ExceedsLeafLimit(r) {
		return ares.Placing{}, false
	}
	if len(pl.Windows.Windows) > 0 {
		if own, some := pl.Windows.ReservedForOwn(sh, allowed, stay.At); some {
			if p, seated := pl.placeAmong(sh, r, most, e, own, speculative); seated {
				return p, true
			}
		}
	}
	return pl.placeAmong(sh, r, most, e, allowed, speculative)
}

// placeAmong places a job on the allowed nodes.
func (pl *Placer) placeAmong(sh *job.Shape, r *cluster.Request, most int, e *job.Entry, allowed *cluster.Set, speculative bool) (ares.Placing, bool) {
	if sh.Members == 1 {
		return pl.placeSingle(sh, r, allowed, speculative)
	}
	return pl.placeGang(sh, r, most, e, allowed)
}
