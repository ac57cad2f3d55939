package engine

import "github.com/ares-scheduler/ares/engine/cluster"

// blockerKind is the kind of blocker: what is busy may come free.
func blockerKind(h cluster.Reason) string {
	switch {
	case h == cluster.ReasonJobAffinity:
		return kindNear
	case h == cluster.ReasonReserved:
		return kindReserved
	case h == cluster.ReasonQuota:
		return kindQuota
	case h >= cluster.ReasonBusyDevices:
		return kindCapacity
	}
	return kindNodes
}
