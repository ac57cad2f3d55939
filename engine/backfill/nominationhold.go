package backfill

import (
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// NominationHold is a nomination in one cycle: the seats of a job that waits for other
// jobs to stop. The free parts of these seats are held, so that no other job gets them.
type NominationHold struct {
	Entry     *job.Entry
	Seats     []ares.Seat
	Until     time.Time // the nomination is withdrawn if the seats are not free by then
	Hold      cluster.Hold
	FreeSeats int              // seats that are free as a whole
	Grant     queue.Allocation // charged to limits and quotas, but not to the fair share
	Over      bool             // the job is placed or the nomination is invalid: nothing is held
	Invalid   string           // why the nomination is withdrawn, "" while it is valid
}
