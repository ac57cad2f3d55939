package engine

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// guaranteedModels is the models of which quotas promise the shape as much as it asks
// for, as a set. It is empty too when something else keeps it waiting.
func (j *jobTable) guaranteedModels(sh *shape, admitted bool, now time.Time) (models uint64) {
	if !sh.request.NeedsDevices() {
		return 0
	}
	if !admitted {
		unmet := slices.ContainsFunc(sh.after, func(id ares.JobID) bool { return !j.dependencySucceeded(id) })
		if unmet || j.overBudget(sh.tenant, now) || len(sh.leaf.CheckAdmission(queue.Allocation{ForLimits: sh.use(sh.minMembers)})) > 0 {
			return 0
		}
	}
	asked := sh.minGPUMilli()
	for m := range j.cluster.MatchingModels(sh.request) {
		if room, ok := sh.leaf.NominalHeadroom(m, nil); ok && room >= asked {
			models |= cluster.ModelBit(m)
		}
	}
	return models
}

// wouldBorrow says whether the shape would hold more than its quotas promise it. Who
// has none borrows nothing.
func (j *jobTable) wouldBorrow(sh *shape) bool {
	if !sh.request.NeedsDevices() {
		return false
	}
	asked, bound := sh.minGPUMilli(), false
	for m := range j.cluster.MatchingModels(sh.request) {
		room, ok := sh.leaf.NominalHeadroom(m, nil)
		if ok && room >= asked {
			return false
		}
		bound = bound || ok
	}
	return bound
}

// wouldBorrowNow is WouldBorrow of an entry.
func (j *jobTable) wouldBorrowNow(e *entry) bool {
	return j.queues.HasQuotas() && j.wouldBorrow(e.shape)
}

// dependenciesMet says whether a job waits for no other to succeed.
func (j *jobTable) dependenciesMet(e *entry) bool {
	return !slices.ContainsFunc(e.shape.after, func(id ares.JobID) bool { return !j.dependencySucceeded(id) })
}
