package control

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Aside remembers requests that were accepted lately by any server. What it says is
// only where to look: it may forget, be gone, or be wrong.
type Aside interface {
	// Recall says whether a request of this digest seems to have been accepted.
	Recall(ctx context.Context, id ares.JobID, digest ares.Digest) bool
	// Note has an accepted request remembered, and does not wait for it.
	Note(id ares.JobID, digest ares.Digest)
}

// asideMost is up to how many jobs at once each is looked up: of larger batches the
// transaction costs less than that.
const asideMost = 16

// repeated answers a request that was accepted before. The store has the word: a
// read there costs less than a write that finds the same.
func (d *Desk) repeated(ctx context.Context, spec *ares.Spec, batch int) (Accepted, bool) {
	if d.Aside == nil || spec.RequestID == "" || batch > asideMost || spec.Check() != nil {
		return Accepted{}, false
	}
	id, digest := spec.JobID(), ares.DigestOf(*spec)
	if !d.Aside.Recall(ctx, id, digest) {
		return Accepted{}, false
	}
	return d.accepted(ctx, id, digest)
}

// remember notes a request that was accepted now or before.
func (d *Desk) remember(ask *store.Creation, c *store.Created) {
	if d.Aside != nil && c.Err == nil && !c.Stale {
		d.Aside.Note(c.ID, ask.Job.Digest)
	}
}
