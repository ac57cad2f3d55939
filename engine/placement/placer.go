package placement

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/topology"
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

	At                    time.Time              // when jobs of this pass would start; administrators' reservations are evaluated at that time
	FeasibleScratch       cluster.Set            // result of FeasibleNodes when it differs from the request's own set
	Cycle                 int                    // number of the current pass
	Epoch                 int                    // increases with each pass, and when held capacity is released during one; failures are remembered for one epoch
	Placed                []PlacedJob            // jobs placed in this pass
	Offer                 ares.Placing           // placing of the current job
	crowd                 crowd                  // scratch of crowdFor
	gangCost              topology.PlacementCost // of the nodes that chooseNodes returned last
	modelPicks            []topology.Assignment  // scratch of chooseNodes
	recordedUnschedulable bool                   // RememberUnschedulable was called in this pass
	WouldDelay            bool                   // the current job is skipped alone, because others of its shape may still be placed
	WindowBlocked         bool                   // administrators' reservations alone block the current job
}

// Close clears the list of jobs that the pass placed.
func (pl *Placer) Close() {
	clear(pl.Placed)
	pl.Placed, pl.Offer = pl.Placed[:0], ares.Placing{}
}

// PlacedJob is a job that this pass has placed.
type PlacedJob struct {
	Entry *job.Entry
	Seats []ares.Seat
}

// StayOf returns the start time and the expected duration of a job that starts in this pass.
func (pl *Placer) StayOf(e *job.Entry) window.Stay { return pl.Windows.StayOf(e, pl.At) }

// PlaceJob takes seats for a job. PlaceJob places as many members as fit, but at most the number in the
// parameter `most`. If fewer than MinMembers members fit, PlaceJob places no member. The parameter `ban` is the
// set of GPU models that quotas exclude. The parameter `e` is the job's entry, or nil for a job that is not in
// the state. If a request fits on no node, PlaceJob remembers this until the epoch ends.
func (pl *Placer) PlaceJob(sh *job.Shape, most int, ban uint64, e *job.Entry, stay window.Stay) (ares.Placing, bool) {
	return pl.place(sh, most, ban, e, stay, false)
}

// TryPlace is like PlaceJob, but the cluster is hypothetical: some jobs are assumed to have ended or started.
// TryPlace does not record failed placements, and does not use earlier records of them.
func (pl *Placer) TryPlace(sh *job.Shape, most int, ban uint64, e *job.Entry, stay window.Stay) (ares.Placing, bool) {
	return pl.place(sh, most, ban, e, stay, true)
}

// The method `place` tries the nodes that are reserved for the job before it tries other nodes.
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
