//go:build linux

package run

import (
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// never is when a checkpoint file was written that no job has touched.
var never = time.Unix(0, 0)

// Checkpointed is when the job last touched its ARES_CHECKPOINT_FILE, by this machine's
// wall clock; ok is false if it never did.
func (p *Proc) Checkpointed() (at time.Time, ok bool) {
	return p.r.Checkpointed(p.order.Key)
}

// Checkpointed is the same of a seat whose process may be gone, until it is forgotten.
func (r *Runner) Checkpointed(key Key) (at time.Time, ok bool) {
	f, err := r.open(key, seat.CheckpointFile)
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.ModTime().After(never) {
		return time.Time{}, false
	}
	return st.ModTime(), true
}
