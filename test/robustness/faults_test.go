package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// fault is one kind of thing that can go wrong. do makes it happen and returns
// what it was, or nothing when it cannot happen just now.
type fault struct {
	kind   string
	weight int
	do     func(*tempter) *mishap
}

// mishap is a fault that has happened.
type mishap struct {
	target  string
	detail  string
	lasts   time.Duration // until it is taken back
	undo    func()        // takes it back; nil when there is nothing to take back
	excuses bool
}

// tempter makes faults, one after the other, by its own random numbers.
// Several work at once, on different machines.
type tempter struct {
	*rand.Rand
	ctx    context.Context
	faults []fault
	fleet  *fleet
	scene  *scene
	record *trace.Writer
}

// scene is what tempters share: which machines are theirs for now.
type scene struct {
	mu    sync.Mutex
	taken map[string]bool

	restores []trace.Restore
	rec      *recorder
}

// take reserves a machine, or anything else by name.
func (s *scene) take(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[name] {
		return false
	}
	s.taken[name] = true
	return true
}

func (s *scene) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, name)
}

// tempt makes faults until ctx ends, and takes each of them back.
func (t *tempter) tempt() {
	for len(t.faults) > 0 && rest(t.ctx, t.between(300, 2500)) {
		f := t.choose()
		at := trace.Now()
		m := f.do(t)
		if m == nil {
			continue
		}
		note := trace.Fault{Kind: f.kind, Target: m.target, Detail: m.detail, At: at, Excuses: m.excuses}
		if m.undo != nil {
			rest(t.ctx, m.lasts)
			m.undo()
			note.Until = trace.Now()
		}
		if err := t.record.Fault(note); err != nil {
			t.fleet.t.Error(err)
		}
	}
}

func (t *tempter) choose() fault {
	sum := 0
	for _, f := range t.faults {
		sum += f.weight
	}
	n := t.IntN(sum)
	for _, f := range t.faults {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	panic("the weights do not add up")
}

// between is a time of so many milliseconds.
func (t *tempter) between(least, most int) time.Duration {
	return time.Duration(least+t.IntN(most-least+1)) * time.Millisecond
}

// worker reserves a node for one fault; release gives it back.
func (t *tempter) worker() (i int, release func(), ok bool) {
	i = t.IntN(nodes)
	return t.reserve(i, t.fleet.workers)
}

// control reserves a machine of the control plane. Only one of the three is
// ever in trouble at a time, but for the faults that are about more.
func (t *tempter) control() (i int, release func(), ok bool) {
	if !t.scene.take("control") {
		return 0, nil, false
	}
	return t.IntN(members), func() { t.scene.drop("control") }, true
}

func (t *tempter) reserve(i int, among []*machine) (int, func(), bool) {
	name := among[i].name
	if !t.scene.take(name) {
		return 0, nil, false
	}
	return i, func() { t.scene.drop(name) }, true
}

// wall is an environment in which a process believes in a wrong wall clock, or
// nothing.
func (t *tempter) wall() (env []string, detail string) {
	switch t.IntN(6) {
	case 0:
		return []string{"ARES_TEST_WALL_SHIFT=3600"}, "; then its wall clock is 1 h fast"
	case 1:
		return []string{"ARES_TEST_WALL_SHIFT=-3600"}, "; then its wall clock is 1 h slow"
	}
	return nil, ""
}

// both undoes in turn.
func both(undo ...func()) func() {
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("for %s", d.Round(time.Millisecond)) }
