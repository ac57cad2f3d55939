package engine

import (
	"cmp"
	"container/heap"
	"time"
)

// alarm is a time at which something changes for a waiting job without an event.
type alarm struct {
	at    time.Time // zero for never
	entry *entry
	place int // in its heap, from 1; 0 when it is in none
}

// alarms is a heap of them: by time, then ID. Those that never ring are last.
type alarms []*alarm

func (a alarms) Len() int { return len(a) }
func (a alarms) Less(i, j int) bool {
	x, y := a[i], a[j]
	if x.at.IsZero() != y.at.IsZero() {
		return y.at.IsZero()
	}
	return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.entry.id, y.entry.id)) < 0
}

func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i+1, j+1
}

// Push is for container/heap.
func (a *alarms) Push(x any) {
	*a = append(*a, x.(*alarm))
	x.(*alarm).place = len(*a)
}

// Pop is for container/heap.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	out := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	out.place = 0
	return out
}

// set puts an alarm in, or to another time.
func (a *alarms) set(of *alarm, at time.Time) {
	of.at = at
	if of.place == 0 {
		heap.Push(a, of)
	} else {
		heap.Fix(a, of.place-1)
	}
}

// drop takes an alarm out, if it is in.
func (a *alarms) drop(of *alarm) {
	if of.place > 0 {
		heap.Remove(a, of.place-1)
	}
}

// rings says whether an alarm's time has come.
func (a *alarm) rings(now time.Time) bool { return !a.at.IsZero() && !a.at.After(now) }

// rung calls for those whose time has come, in no order, and returns when the
// next one's comes, zero for never. It leaves them where they are.
func (a alarms) rung(now time.Time, call func(*entry)) (next time.Time) {
	if len(a) == 0 {
		return next
	}
	open := []int{0}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if !a[i].rings(now) {
			next = sooner(next, a[i].at)
			continue
		}
		call(a[i].entry)
		for kid := 2*i + 1; kid <= 2*i+2 && kid < len(a); kid++ {
			open = append(open, kid)
		}
	}
	return next
}

// sooner is the earlier of two times, where zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
