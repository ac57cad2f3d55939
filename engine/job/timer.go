package job

import (
	"cmp"
	"container/heap"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// LaterOf returns the later of two times.
func LaterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// WakeBy sets the plan's wake-up time to the given time if that is earlier than the current wake-up time. The new
// wake-up time is never before the plan's own time.
func WakeBy(plan *ares.Plan, at time.Time) {
	if plan.Wake.IsZero() || at.Before(plan.Wake) {
		plan.Wake = LaterOf(at, plan.Now)
	}
}

// A timer is a time at which a property of a job changes without an event.
type timer struct {
	at        time.Time // zero for never
	entry     *Entry
	heapIndex int // index in its heap plus 1; 0 if it is in no heap
}

// The type `timers` holds the timers of one job. Few jobs have a timer, so an entry has only a pointer to them.
type timers struct {
	deadline     timer // for an unfinished job with a deadline: when the next note is due
	queueTimeout timer // for a job with max_queue_minutes that was never placed: when it expires
}

// ownTimers returns the timers of an entry, and creates them when necessary.
func (e *Entry) ownTimers() *timers {
	if e.timers == nil {
		e.timers = &timers{deadline: timer{entry: e}, queueTimeout: timer{entry: e}}
	}
	return e.timers
}

// timerHeap is a heap of timers, ordered by time and then by job ID. Timers without a time
// are last.
type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	x, y := h[i], h[j]
	if x.at.IsZero() != y.at.IsZero() {
		return y.at.IsZero()
	}
	return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.entry.ID, y.entry.ID)) < 0
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i+1, j+1
}

// Push implements heap.Interface.
func (h *timerHeap) Push(x any) {
	*h = append(*h, x.(*timer))
	x.(*timer).heapIndex = len(*h)
}

// Pop implements heap.Interface.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	out := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	out.heapIndex = 0
	return out
}

// The method `schedule` sets a timer to a time, and adds the timer to the heap if it is not there.
func (h *timerHeap) schedule(t *timer, at time.Time) {
	t.at = at
	if t.heapIndex == 0 {
		heap.Push(h, t)
	} else {
		heap.Fix(h, t.heapIndex-1)
	}
}

// The method `cancel` removes a timer, if it is in the heap.
func (h *timerHeap) cancel(t *timer) {
	if t.heapIndex > 0 {
		heap.Remove(h, t.heapIndex-1)
	}
}

// isDue reports whether the timer is due at the time `now`.
func (t *timer) isDue(now time.Time) bool { return !t.at.IsZero() && !t.at.After(now) }

// collectDue calls the function `visit` for every job whose timer is due, in no particular order. It returns the
// time of the next timer, or zero if there is none. Due timers stay in the heap.
func (h timerHeap) collectDue(now time.Time, visit func(*Entry)) (next time.Time) {
	if len(h) == 0 {
		return next
	}
	open := []int{0}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if !h[i].isDue(now) {
			next = EarlierOf(next, h[i].at)
			continue
		}
		visit(h[i].entry)
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			open = append(open, child)
		}
	}
	return next
}

// EarlierOf returns the earlier of two times. A zero time stands for never.
func EarlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
