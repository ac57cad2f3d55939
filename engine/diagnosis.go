package engine

// blockerKind is the kind of blocker: what is busy may come free.
func blockerKind(h reason) string {
	switch {
	case h == reasonJobAffinity:
		return kindNear
	case h == reasonReserved:
		return kindReserved
	case h == reasonQuota:
		return kindQuota
	case h >= reasonBusyDevices:
		return kindCapacity
	}
	return kindNodes
}
