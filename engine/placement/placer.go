package placement

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// Placer finds nodes and devices for the members of a job, and takes them.
type Placer struct {
	Cfg     *config.Config
	Cluster *cluster.Cluster
	Scorer  *score.Scorer
	Jobs    *job.Table
	Windows *window.Calendar
	Txn     *cluster.Txn

	FeasibleScratch       cluster.Set  // scratch of reach
	Cycle                 int          // counts them
	Epoch                 int          // counts them too, and what gives room in the middle of one
	Placed                []PlacedJob  // whole jobs
	Offer                 ares.Placing // of the job whose turn it is
	recordedUnschedulable bool         // a shape was noted as refused
	WouldDelay            bool         // the job whose turn it was would fit, and delay one ahead of it
	WindowBlocked         bool         // reservations alone keep off the job whose turn it was
	Speculative           bool         // what is taken is not as it is: nothing is noted for the rest of the decision
}

func (pl *Placer) Close() {
	clear(pl.Placed)
	pl.Placed, pl.Offer = pl.Placed[:0], ares.Placing{}
}

// PlacedJob is a job the decision under way has placed.
type PlacedJob struct {
	Entry *job.Entry
	Seats []ares.Seat
}

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
