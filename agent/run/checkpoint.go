//go:build linux

package run

import (
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The constant `never` is the modification time of a checkpoint file that no job has touched.
var never = time.Unix(0, 0)

// Checkpointed returns the time at which the job last touched its ARES_CHECKPOINT_FILE, by this machine's wall clock.
// The result `ok` is false if the job never touched the file.
func (p *Proc) Checkpointed() (at time.Time, ok bool) {
	return p.r.Checkpointed(p.order.Key)
}

// Checkpointed returns the time of the job's last checkpoint even if the job's process is gone. The
// time stays available until the seat is forgotten.
func (r *Runner) Checkpointed(key Key) (at time.Time, ok bool) {
	f, err := r.open(key, seat.CheckpointFile)
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return time.Time{}, false
	}
	r.limitReport(key, seat.CheckpointFile, st)
	if !st.ModTime().After(never) {
		return time.Time{}, false
	}
	return st.ModTime(), true
}
