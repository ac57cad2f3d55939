package preempt

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// preemptionRights is the set of rights by which a waiting job may stop other jobs.
type preemptionRights uint8

const (
	rightByClass  preemptionRights = 1 << iota // the victim's class is two or more below
	rightByQuota                               // the victim borrowed quota that is guaranteed to the job's tenant
	rightByOrder                               // the victim comes later in the order of the same queue
	rightByLength                              // the victim is of the same queue and class, and is expected to need much more
	rightToMove                                // the victim immediately gets other seats
)

// The method `reason` returns the reason that is recorded for a preemption with this right.
func (rights preemptionRights) reason() ares.PreemptionBasis {
	switch {
	case rights&rightToMove != 0:
		return ares.PreemptByMove
	case rights&rightByOrder != 0, rights == rightByLength:
		return ares.PreemptByOrder
	case rights&rightByQuota != 0:
		return ares.PreemptByQuota
	}
	return ares.PreemptByClass
}

// rightsOf returns the preemption rights of a waiting job, and the GPU models that quotas guarantee to the job. A
// job that waits because of its own limits or quotas may preempt other jobs only to reclaim quota.
func (r *Round) rightsOf(e *job.Entry, admitted bool, now time.Time) (out preemptionRights, guaranteed uint64) {
	switch record := e.Shape.Tenant.Record; {
	case record == nil:
		return 0, 0
	case admitted && r.Cfg.Queue.Preempt:
		return rightByOrder, 0
	case !r.Cfg.Preemption.Enabled:
		return 0, 0
	case admitted && record.MayPreempt:
		for rank := range max(e.ClassRank()-1, 0) {
			if len(r.Jobs.Running.Running[rank]) > 0 {
				out |= rightByClass
			}
		}
	}
	if from, ok := r.Jobs.PreemptsLongerFrom(e); admitted && ok && !now.Before(from) {
		out |= rightByLength
	}
	if r.Jobs.Queues.HasQuotas() {
		if guaranteed = r.Jobs.GuaranteedModels(e.Shape, admitted, now); guaranteed != 0 {
			out |= rightByQuota
		}
	}
	return out, guaranteed
}

// noteNotAllowed records that jobs of lower classes are running, but the waiting job must not preempt them. The
// configuration or the tenant does not allow it. The note tells users why an urgent job waits.
func (r *Round) noteNotAllowed(e *job.Entry) {
	record := e.Shape.Tenant.Record
	off := !r.Cfg.Preemption.Enabled
	if record == nil || !off && record.MayPreempt || e.ClassRank() < 2 {
		return
	}
	below := r.Jobs.Running.Running[:e.ClassRank()-1]
	switch below := slices.ContainsFunc(below, func(list []*job.Entry) bool { return len(list) > 0 }); {
	case !below:
	case off:
		r.notePreemption("no job is preempted for it: preemption is disabled (enable_preemption)")
	default:
		r.notePreemption("no job is preempted for it: its tenant may not preempt by class (allow_preemption)")
	}
}
