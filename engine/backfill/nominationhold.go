package backfill

import (
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
)

// NominationHold holds the seats of a nominated job during one cycle. The nominated job waits until the other jobs
// on these seats have stopped. The hold includes those parts of the seats that are already free, so that no other
// job gets them.
type NominationHold struct {
	Entry     *job.Entry
	Seats     []ares.Seat
	Until     time.Time // the nomination is withdrawn if the seats are not free by then
	Hold      cluster.Hold
	FreeSeats int              // number of seats that are entirely free
	Grant     queue.Allocation // charged to limits and quotas, but not to the fair share
	Over      bool             // the job is placed or the nomination is invalid, so nothing is held
	Invalid   string           // why the nomination is withdrawn, "" while it is valid
}
