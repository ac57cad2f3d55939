package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Overdue holds the overdue jobs of one queue. With config.OrderExpectedWork, a job that has waited for OverdueAfter
// is overdue, whatever its class. When it is the queue's turn, its overdue jobs that fit are placed before its other
// jobs, oldest first, as long as they get no more than OverdueShare of the queue's GPUs, or while they get none. So a long
// queue does not become a queue in submission order. The share counts GPUs that are really used, so wrong forecasts
// cannot change it.
//
// Records do not tell why a job was placed. A running job counts towards the share of a waiting one if it had waited at
// least half as long when it was placed. When all jobs wait for weeks, the order by expected work starts jobs that are
// overdue too, but seldom jobs that have waited as long as the oldest. If these counted, the oldest would never have a
// share.
type Overdue struct {
	shapes  []*Shape // with overdue jobs, in no particular order
	running []overdueRun
	cycle   int   // the cycle to which the next fields belong
	done    bool  // the cycle places no more overdue jobs
	placed  int64 // GPUs that the cycle has given to overdue jobs, in thousandths
}

// overdueRun is a running job that was overdue when it was placed. The runs of a queue are sorted by byWaited.
type overdueRun struct {
	waited time.Duration
	milli  int64 // GPUs, in thousandths
	entry  *Entry
}

// byWaited orders running jobs by the time that they had waited, longest first.
func byWaited(a, b overdueRun) int {
	return cmp.Or(cmp.Compare(b.waited, a.waited), cmp.Compare(a.entry.ID, b.entry.ID))
}

// overdueMark says whether a pending job is overdue.
type overdueMark struct {
	is           bool      // the job is among the overdue jobs of its shape
	takenInCycle uint32    // the last cycle that placed the job as an overdue job, modulo 2^32
	since        time.Time // for an overdue job: since when it waits
}

// maxOverdueShapes limits how many shapes of a queue a cycle considers, because a cycle must stay short.
const maxOverdueShapes = 64

// overdueJobs are the overdue jobs of one shape.
type overdueJobs struct {
	entries []*Entry // sorted by byOverdue
	cycle   int      // the cycle to which `from` belongs
	from    int      // entries before this index were placed in the cycle
	refused bool     // the cycle cannot place the shape
}

// byOverdue orders overdue jobs by the time since which they wait, then by submission.
func byOverdue(a, b *Entry) int {
	return cmp.Or(a.overdue.since.Compare(b.overdue.since), cmp.Compare(a.Item.Revision, b.Item.Revision), cmp.Compare(a.ID, b.ID))
}

// OverdueOf returns the overdue jobs of a queue, or nil if it has none and none is running.
func (j *Table) OverdueOf(leaf *QueueLeaf) *Overdue { return j.overdue[leaf] }

// setOverdue adds a pending job to the overdue jobs of its queue, or removes it.
func (j *Table) setOverdue(e *Entry, overdue bool) {
	if overdue == e.overdue.is {
		return
	}
	sh := e.Shape
	if !overdue {
		list := sh.overdue.entries
		if at, _ := slices.BinarySearchFunc(list, e, byOverdue); at == 0 {
			list[0] = nil
			sh.overdue.entries = list[1:] // the oldest goes first, and there may be many
		} else {
			sh.overdue.entries = slices.Delete(list, at, at+1)
		}
		e.overdue.is, e.overdue.since = false, time.Time{}
		if len(sh.overdue.entries) == 0 {
			o := j.overdue[sh.Leaf]
			o.shapes = slices.DeleteFunc(o.shapes, func(s *Shape) bool { return s == sh })
			j.dropOverdue(sh.Leaf, o)
		}
		return
	}
	e.overdue.is, e.overdue.since = true, e.waitingSince()
	if len(sh.overdue.entries) == 0 {
		o := j.overdueOrNew(sh.Leaf)
		o.shapes = append(o.shapes, sh)
	}
	at, _ := slices.BinarySearchFunc(sh.overdue.entries, e, byOverdue)
	sh.overdue.entries = slices.Insert(sh.overdue.entries, at, e)
}

func (j *Table) overdueOrNew(leaf *QueueLeaf) *Overdue {
	o := j.overdue[leaf]
	if o == nil {
		o = &Overdue{}
		j.overdue[leaf] = o
	}
	return o
}

// dropOverdue forgets the overdue jobs of a queue that has none.
func (j *Table) dropOverdue(leaf *QueueLeaf, o *Overdue) {
	if len(o.shapes) == 0 && len(o.running) == 0 {
		delete(j.overdue, leaf)
	}
}

// chargeOverdue counts a running job if it was overdue when it was placed.
func (j *Table) chargeOverdue(e *Entry, sign int) {
	run := overdueRun{waited: e.waitedWhenPlaced(), milli: HeldMilli(e), entry: e}
	if after := j.cfg.Queue.OverdueAfter; after <= 0 || run.milli == 0 || run.waited < after {
		return
	}
	o := j.overdueOrNew(e.Shape.Leaf)
	at, found := slices.BinarySearchFunc(o.running, run, byWaited)
	switch {
	case sign > 0:
		o.running = slices.Insert(o.running, at, run)
	case found:
		o.running = slices.Delete(o.running, at, at+1)
	}
	j.dropOverdue(e.Shape.Leaf, o)
}

// waitedWhenPlaced returns how long a job had waited when its running attempt was placed.
func (e *Entry) waitedWhenPlaced() time.Duration {
	a := e.Run.Current()
	if a == nil {
		return 0
	}
	since := e.Job.AcceptedAt
	if n := len(e.Run.Attempts); n > 1 {
		since = LaterOf(since, e.Run.Attempts[n-2].EndedAt)
	}
	return a.PlacedAt.Sub(since)
}

// fits reports whether an overdue job may be placed although overdue jobs already use GPUs of its queue.
func (o *Overdue) fits(e *Entry, leaf *QueueLeaf, share int, now time.Time) bool {
	least, used := now.Sub(e.overdue.since)/2, o.placed
	allowed := int64(share)*leaf.GPUMilli()/100 - e.gpuMilli()
	for i := range o.running {
		if o.running[i].waited < least || used > allowed && used > 0 {
			break
		}
		used += o.running[i].milli
	}
	return used == 0 || used <= allowed
}

// NextOverdue returns the overdue job of a queue that the cycle places next if it fits, or nil if there is none. The
// argument `share` is the part of the queue's GPUs that overdue jobs may use, in percent.
func (o *Overdue) NextOverdue(leaf *QueueLeaf, cycle, share int, now time.Time) *Entry {
	if o.cycle != cycle {
		o.cycle, o.done, o.placed = cycle, false, 0
	}
	if o.done {
		return nil
	}
	var first *Entry
	for _, sh := range o.shapes[:min(len(o.shapes), maxOverdueShapes)] {
		jobs := &sh.overdue
		if jobs.cycle != cycle {
			jobs.cycle, jobs.from, jobs.refused = cycle, 0, false
		}
		if jobs.refused || jobs.from == len(jobs.entries) {
			continue
		}
		if e := jobs.entries[jobs.from]; first == nil || byOverdue(e, first) < 0 {
			first = e
		}
	}
	if first != nil && !o.fits(first, leaf, share, now) {
		first = nil
	}
	o.done = first == nil
	return first
}

// Refuse says that the cycle cannot place the job that NextOverdue returned, nor others of its shape.
func (o *Overdue) Refuse(e *Entry) { e.Shape.overdue.refused = true }

// Take says that the cycle has placed the job that NextOverdue returned. The argument `more` says that the job is an
// array with more elements.
func (o *Overdue) Take(e *Entry, milli int64, more bool) {
	o.placed += milli
	if !more {
		e.Shape.overdue.from++
		e.overdue.takenInCycle = uint32(o.cycle)
	}
}

// TakenInCycle reports whether a job was placed as an overdue job in the cycle.
func (e *Entry) TakenInCycle(cycle int) bool {
	return e.overdue.takenInCycle == uint32(cycle) && cycle > 0
}

// checkOverdue returns an error if the overdue jobs differ from a recount.
func (j *Table) checkOverdue() error {
	running, waiting := map[*QueueLeaf]int{}, map[*Shape]int{}
	for _, e := range j.Entries() {
		if e.Job == nil {
			continue
		}
		if e.overdue.is {
			if at, ok := slices.BinarySearchFunc(e.Shape.overdue.entries, e, byOverdue); !ok || e.Shape.overdue.entries[at] != e || e.Queue != InPending {
				return fmt.Errorf("job %s is not listed among the overdue jobs of its shape", e.ID)
			}
			waiting[e.Shape]++
		}
		if after := j.cfg.Queue.OverdueAfter; after <= 0 || e.Run == nil || !e.Held.isConcurrent || HeldMilli(e) == 0 || e.waitedWhenPlaced() < after {
			continue
		}
		run := overdueRun{waited: e.waitedWhenPlaced(), milli: HeldMilli(e), entry: e}
		o := j.overdueOrNew(e.Shape.Leaf)
		if at, ok := slices.BinarySearchFunc(o.running, run, byWaited); !ok || o.running[at] != run {
			return fmt.Errorf("job %s is not listed among the running overdue jobs of its queue", e.ID)
		}
		running[e.Shape.Leaf]++
	}
	shapes := 0
	for leaf, o := range j.overdue { // order-free: any violation is enough
		if len(o.running) != running[leaf] {
			return fmt.Errorf("queue %s/%s lists %d running overdue jobs, but it has %d", leaf.Tenant(), leaf.Name(), len(o.running), running[leaf])
		}
		for _, sh := range o.shapes {
			if len(sh.overdue.entries) != waiting[sh] || sh.Leaf != leaf {
				return fmt.Errorf("a shape of queue %s/%s lists %d overdue jobs, but it has %d", leaf.Tenant(), leaf.Name(), len(sh.overdue.entries), waiting[sh])
			}
			shapes++
		}
	}
	if shapes != len(waiting) {
		return fmt.Errorf("%d shapes have overdue jobs, but %d are listed", len(waiting), shapes)
	}
	return nil
}
