package admission

import (
	"context"

	ares "github.com/ares-scheduler/ares"
)

// SeenCache remembers requests that any server accepted recently. A SeenCache is only a hint, because it may forget entries, be
// unavailable, or be wrong.
type SeenCache interface {
	// Seen reports whether a request with this digest seems to have been accepted.
	Seen(ctx context.Context, id ares.JobID, digest ares.Digest) bool
	// MarkSeen remembers an accepted request. MarkSeen does not wait for the write.
	MarkSeen(id ares.JobID, digest ares.Digest)
}

// maxSeenLookups is the largest batch in which each request is looked up in the cache. For larger
// batches, it is cheaper to let the store transaction find duplicate requests.
const maxSeenLookups = 16

// seenBefore answers a request that was accepted before. The cache is only a hint; the answer comes
// from the store. Reading the store is cheaper than a write that finds the same duplicate.
func (a *Admission) seenBefore(ctx context.Context, r *Request) (Accepted, bool) {
	if !a.Seen.Seen(ctx, a.jobID(&r.Submitted), r.digest) {
		return Accepted{}, false
	}
	return a.acceptedBefore(ctx, r)
}
