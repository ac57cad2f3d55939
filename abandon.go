package ares

import "time"

// Abandon frees every seat on a machine that is gone for good, and returns how
// many. A seat that may still be used is refused, unless force says that the
// machine is off or was started anew: then it is taken back first, as lost.
func (r *Run) Abandon(j *Job, node string, force bool, now time.Time) (freed int, err error) {
	for i := range r.Attempts {
		a := &r.Attempts[i]
		for k := range a.Seats {
			h := &a.Seats[k]
			if h.Node != node || h.State.Free() {
				continue
			}
			if !h.State.Settled() {
				if !force {
					return 0, Errorf(Conflict, "job %s may still live on node %s: its seat is taken back %s after the node's last word; wait for that, or use --force if the machine is off or was started anew", j.ID, node, j.LostAfter())
				}
				if err = r.Void(j, a.Fence, h.Rank, now); err != nil {
					return 0, err
				}
			}
			h.State = SeatCleared
			freed++
		}
	}
	return freed, nil
}
