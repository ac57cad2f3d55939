package job

import (
	"cmp"
	"container/heap"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func LaterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// WakeBy has the next decision made at a time at the latest.
func WakeBy(plan *ares.Plan, at time.Time) {
	if plan.Wake.IsZero() || at.Before(plan.Wake) {
		plan.Wake = LaterOf(at, plan.Now)
	}
}

// timer is a time at which something changes for a waiting job without an event.
type timer struct {
	at        time.Time // zero for never
	entry     *Entry
	heapIndex int // in its heap, from 1; 0 when it is in none
}

// timerHeap is a heap of them: by time, then ID. Those that never ring are last.
type timerHeap []*timer

func (a timerHeap) Len() int { return len(a) }

func (a timerHeap) Less(i, j int) bool {
	x, y := a[i], a[j]
	if x.at.IsZero() != y.at.IsZero() {
		return y.at.IsZero()
	}
	return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.entry.ID, y.entry.ID)) < 0
}

func (a timerHeap) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].heapIndex, a[j].heapIndex = i+1, j+1
}

// Push is for container/heap.
func (a *timerHeap) Push(x any) {
	*a = append(*a, x.(*timer))
	x.(*timer).heapIndex = len(*a)
}

// Pop is for container/heap.
func (a *timerHeap) Pop() any {
	last := len(*a) - 1
	out := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	out.heapIndex = 0
	return out
}

// schedule puts an alarm in, or to another time.
func (a *timerHeap) schedule(of *timer, at time.Time) {
	of.at = at
	if of.heapIndex == 0 {
		heap.Push(a, of)
	} else {
		heap.Fix(a, of.heapIndex-1)
	}
}

// cancel takes an alarm out, if it is in.
func (a *timerHeap) cancel(of *timer) {
	if of.heapIndex > 0 {
		heap.Remove(a, of.heapIndex-1)
	}
}

// isDue says whether an alarm's time has come.
func (a *timer) isDue(now time.Time) bool { return !a.at.IsZero() && !a.at.After(now) }

// collectDue calls for those whose time has come, in no order, and returns when the
// next one's comes, zero for never. It leaves them where they are.
func (a timerHeap) collectDue(now time.Time, call func(*Entry)) (next time.Time) {
	if len(a) == 0 {
		return next
	}
	open := []int{0}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if !a[i].isDue(now) {
			next = EarlierOf(next, a[i].at)
			continue
		}
		call(a[i].entry)
		for kid := 2*i + 1; kid <= 2*i+2 && kid < len(a); kid++ {
			open = append(open, kid)
		}
	}
	return next
}

// EarlierOf is the earlier of two times, where zero is never.
func EarlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
