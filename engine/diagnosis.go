package engine

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// blockerKind is the kind of blocker: what is busy may come free.
func blockerKind(h cluster.Reason) string {
	switch {
	case h == cluster.ReasonJobAffinity:
		return job.KindNear
	case h == cluster.ReasonReserved:
		return job.KindReserved
	case h == cluster.ReasonQuota:
		return job.KindQuota
	case h >= cluster.ReasonBusyDevices:
		return job.KindCapacity
	}
	return job.KindNodes
}
