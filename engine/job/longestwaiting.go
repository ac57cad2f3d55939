package job

import (
	"cmp"
	"slices"
	"time"
)

// waitingList lists the pending jobs that need two or more whole GPUs, in the order in which they began to wait. A
// cycle reads only the beginning of the list, to find the jobs for which nodes may be held. A job that needs less
// fits as soon as any GPU is free, so nothing is ever held for it.
//
// Invariant: items[:sorted] is in order. An item is stale if its job has left the queue since the item was added. A job
// that was never placed gets the same item again when it returns to the queue, because it has the same place in the
// order. All pending jobs leave the queue and return to it when their runtimes have been predicted, and the list would
// otherwise be sorted again for each of them.
type waitingList struct {
	items    []waitingItem
	sorted   int
	earliest int64 // when the first of items[sorted:] began to wait, or earlier
	stale    int
	last     uint32 // the number of the latest item
}

type waitingItem struct {
	since int64 // when the job began to wait
	entry *Entry
	item  uint32 // equal to entry.waitingItem unless the item is stale
}

// isStale reports whether an item no longer stands for a pending job.
func (it *waitingItem) isStale() bool { return it.entry.waitingItem != it.item || !it.entry.listed }

// The method `add` adds a job that enters the pending queue.
func (l *waitingList) add(e *Entry) {
	if e.Shape.Members*e.Shape.Request.GPUs < 2 {
		return
	}
	e.listed = true
	if e.waitingItem != 0 && e.Run == nil { // without a run, it waits since it was accepted
		l.stale--
		return
	}
	l.last++
	l.last = max(l.last, 1)
	e.waitingItem = l.last
	since := e.WaitingSince().UnixNano()
	if l.sorted == len(l.items) {
		l.earliest = since
	}
	l.earliest = min(l.earliest, since)
	l.items = append(l.items, waitingItem{since, e, l.last})
}

// The method `remove` makes the item of a job stale when the job leaves the pending queue.
func (l *waitingList) remove(e *Entry) {
	if !e.listed {
		return
	}
	e.listed = false
	if l.stale++; l.stale > 64 && l.stale > len(l.items)/2 {
		l.removeStale()
	}
}

func (l *waitingList) removeStale() {
	kept, ordered := l.items[:0], 0
	for i := range l.items {
		it := l.items[i]
		if it.isStale() {
			if it.entry.waitingItem == it.item {
				it.entry.waitingItem = 0
			}
			continue
		}
		if i < l.sorted {
			ordered++
		}
		kept = append(kept, it)
	}
	clear(l.items[len(kept):])
	l.items, l.sorted, l.stale = kept, ordered, 0
}

func byWait(a, b waitingItem) int {
	return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.entry.ID, b.entry.ID))
}

// The method `unsorted` returns the items that the method `sort` has to put in order. Most new items belong near the
// end, and only the items after the place of the first of them are moved. So a cycle does not sort all waiting jobs
// because two submissions arrived at the same time.
func (l *waitingList) unsorted() []waitingItem {
	if l.sorted == len(l.items) {
		return nil
	}
	first := slices.MinFunc(l.items[l.sorted:], byWait)
	at, _ := slices.BinarySearchFunc(l.items[:l.sorted], first, byWait)
	return l.items[at:]
}

// The method `sort` puts all items in order.
func (l *waitingList) sort() {
	slices.SortFunc(l.unsorted(), byWait)
	l.sorted = len(l.items)
}

// LongestWaiting returns the pending jobs that need two or more whole GPUs and that have waited at least since the
// given time. The job that has waited longest is first. The result has no more than the given number of jobs.
func (j *Table) LongestWaiting(since time.Time, most int) (out []*Entry) {
	l := &j.waiting
	if l.earliest <= since.UnixNano() { // otherwise no unsorted job has waited long enough
		l.sort()
	}
	for i := range l.items[:l.sorted] {
		it := &l.items[i]
		if it.since > since.UnixNano() || len(out) == most {
			break
		}
		if !it.isStale() {
			out = append(out, it.entry)
		}
	}
	return out
}
