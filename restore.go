package ares

import "time"

// restoredReason is what people read on attempts that a restore ended.
const restoredReason = "the store was restored from a backup"

// Restore ends what the run of a backup shows as under way, and says whether
// that changed it. What became of the attempt since is not known: it counts as
// lost, under a cancel intent as cancelled (R7). Its seats stay held until
// their nodes report or are given up, because processes may live on there (R2).
//
// An at_most_once job that still waited in the backup may have been started
// since, so it is lost too.
func (r *Run) Restore(j *Job, now time.Time) (changed bool, err error) {
	a := r.Current()
	switch {
	case r.Phase.Final():
		return false, nil
	case a != nil:
		for i := range a.Seats {
			if h := &a.Seats[i]; h.Result == nil {
				h.Result = &RankResult{Outcome: OutcomeLost, Reason: restoredReason, EndedAt: now}
			}
		}
		return true, r.conclude(j, now)
	case r.Stop != nil: // an array on its way to its end: its elements go first
		return false, nil
	case j.Mode == AtMostOnce:
		return true, r.move(Lost, now, restoredReason+", so it may have run; at_most_once jobs are not run again")
	}
	return false, nil
}
