package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The type `fault` describes one kind of fault. The function `do` injects the fault and
// returns its description. If the fault is not possible at the moment, it returns nil.
type fault struct {
	kind   string
	weight int
	do     func(*tempter) *mishap
}

// A `mishap` is a fault that was injected.
type mishap struct {
	target  string
	detail  string
	lasts   time.Duration // until it is undone
	undo    func()        // undoes it; nil if there is nothing to undo
	excuses bool
}

// A `tempter` injects faults, one after another, with its own random numbers. Several
// tempters inject faults at the same time, on different machines.
type tempter struct {
	*rand.Rand
	ctx    context.Context
	faults []fault
	fleet  *fleet
	scene  *scene
	record *trace.Writer
}

// A `scene` is the state that all tempters share. For example, it holds the machines that
// they have reserved.
type scene struct {
	mu    sync.Mutex
	taken map[string]bool

	restores []trace.Restore
	rec      *recorder
}

// This method reserves a machine, or anything else that has a name.
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

// This method injects faults until ctx ends, and undoes each fault.
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

// This method returns a random duration between two bounds in milliseconds.
func (t *tempter) between(least, most int) time.Duration {
	return time.Duration(least+t.IntN(most-least+1)) * time.Millisecond
}

// This method reserves a node for one fault. The function `release` ends the reservation.
func (t *tempter) worker() (i int, release func(), ok bool) {
	i = t.IntN(nodes)
	return t.reserve(i, t.fleet.workers)
}

// This method reserves a machine of the control plane. A fault affects only one of the
// three control-plane machines at a time. An exception is a fault that itself involves
// several machines.
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

// This method sometimes returns an environment that gives a process a wrong
// wall clock. Otherwise the environment is empty.
func (t *tempter) wall() (env []string, detail string) {
	switch t.IntN(6) {
	case 0:
		return []string{"ARES_TEST_WALL_SHIFT=3600"}, "; then its wall clock is 1 h fast"
	case 1:
		return []string{"ARES_TEST_WALL_SHIFT=-3600"}, "; then its wall clock is 1 h slow"
	}
	return nil, ""
}

// This function returns a function that runs several undo functions in order.
func both(undo ...func()) func() {
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("for %s", d.Round(time.Millisecond)) }
