package check

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O2 checks fences in the store. Each attempt has one fence. The fence is
// the store revision at which the attempt was placed. Therefore a job's later
// attempts have higher fences. None of its fences is ever reused, not even after
// a restore. An attempt may be placed only when no process of an earlier attempt
// can still be alive. Jobs that are placed in one transaction have the same
// fence. A fence is therefore unique only within its job. Receivers compare it
// only with fences of the same job.
type fences struct {
	*book
	given map[string]map[int64]given // attempts by job and fence
}

// The type `given` is an attempt as the store recorded it.
type given struct {
	attempt int
	epoch   int64          // of the hub's grant, or 0
	nodes   map[int]string // by rank
}

func (f *fences) settle(*trace.Entry, int64) {}

func (f *fences) step(c *change) {
	if c.isGrantedAgain() { // its attempts are numbered anew
		again := *c
		again.was = nil
		c = &again
	}
	attempts, epoch := c.now.attempts(), int64(0)
	if c.now != nil && c.now.job != nil && c.now.job.Origin != nil {
		epoch = c.now.job.Origin.Epoch
	}
	for i := range attempts {
		a := &attempts[i]
		f.note(c.id, a, epoch)
		if i > 0 && (a.Number <= attempts[i-1].Number || a.Fence <= attempts[i-1].Fence) {
			f.wrong(NoOverlap, c.id, c.now.at, "attempt %d has fence %d after attempt %d with %d", a.Number, a.Fence, attempts[i-1].Number, attempts[i-1].Fence)
		}
		if r := c.restore; r != nil && int64(a.Fence) > r.Backup && int64(a.Fence) <= r.Highest {
			f.wrong(NoOverlap, c.id, c.now.at, "attempt %d carries fence %d after a restore of revision %d: the store had reached %d before", a.Number, a.Fence, r.Backup, r.Highest)
		}
		old := find(c.was.attempts(), a.Number)
		switch {
		case c.restore != nil:
		case old != nil && old.Fence != a.Fence:
			f.wrong(NoOverlap, c.id, c.now.at, "attempt %d had fence %d and has %d at revision %d", a.Number, old.Fence, a.Fence, c.now.revision)
		case old == nil && a.Number > c.was.placed():
			f.placed(c, a)
		}
	}
}

// This method checks a new attempt.
func (f *fences) placed(c *change, a *ares.Attempt) {
	if n := len(c.was.attempts()); n > 0 && a.Fence <= c.was.run.Attempts[n-1].Fence {
		f.wrong(NoOverlap, c.id, c.now.at, "attempt %d has fence %d, not above %d of the one before", a.Number, a.Fence, c.was.run.Attempts[n-1].Fence)
	}
	if c.gap || c.entry.Batch.Reset {
		return
	}
	if int64(a.Fence) != c.entry.Batch.Revision || a.Number != c.was.placed()+1 {
		f.wrong(NoOverlap, c.id, c.now.at, "revision %d placed attempt %d with fence %d after attempt %d", c.entry.Batch.Revision, a.Number, a.Fence, c.was.placed())
	}
	for _, r := range f.run.Meta.Restores[:f.epoch] {
		if int64(a.Fence) <= r.Highest {
			f.wrong(NoOverlap, c.id, c.now.at, "attempt %d was given fence %d after a restore: the store had reached %d before", a.Number, a.Fence, r.Highest)
		}
	}
	if c.was != nil && c.was.run != nil && !c.was.run.Settled() {
		f.wrong(NoOverlap, c.id, c.now.at, "attempt %d was placed while a seat of an earlier one was neither released nor voided", a.Number)
	}
}

func (f *fences) note(id string, a *ares.Attempt, epoch int64) {
	if f.given[id] == nil {
		f.given[id] = map[int64]given{}
	}
	if _, known := f.given[id][int64(a.Fence)]; known {
		return
	}
	g := given{a.Number, epoch, map[int]string{}}
	for i := range a.Seats {
		g.nodes[a.Seats[i].Rank] = a.Seats[i].Node
	}
	f.given[id][int64(a.Fence)] = g
}

func find(attempts []ares.Attempt, number int) *ares.Attempt {
	for i := range attempts {
		if attempts[i].Number == number {
			return &attempts[i]
		}
	}
	return nil
}
