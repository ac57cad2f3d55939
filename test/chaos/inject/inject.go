// Package inject makes faults at random times, by a seed, and undoes each of them. The suites say which faults there are.
package inject

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Fault is one kind of fault. The function Do injects the fault and returns its description. If the fault is not possible at
// the moment, it returns nil.
type Fault[X any] struct {
	Kind   string
	Weight int
	Do     func(X) *Mishap
}

// Mishap is a fault that was injected.
type Mishap struct {
	Target  string
	Detail  string
	Lasts   time.Duration // until it is undone
	Undo    func()        // undoes it; nil if there is nothing to undo
	Excuses bool          // overlaps on the target; see trace.Fault
}

// Injector injects faults, one after another, with its own random numbers. Several injectors inject faults at the same
// time, on different targets.
type Injector struct {
	*rand.Rand
	Ctx context.Context // ends when no more faults are made; each fault is then undone
}

// Run injects faults until the injector's context ends. The argument `x` is passed to the faults, and `note` gets the record
// of each of them.
func Run[X any](i *Injector, faults []Fault[X], x X, note func(trace.Fault)) {
	for len(faults) > 0 && pause.For(i.Ctx, i.Between(300, 2500)) {
		f := choose(i, faults)
		at := trace.Now()
		m := f.Do(x)
		if m == nil {
			continue
		}
		made := trace.Fault{Kind: f.Kind, Target: m.Target, Detail: m.Detail, At: at, Excuses: m.Excuses}
		if m.Undo != nil {
			pause.For(i.Ctx, m.Lasts)
			m.Undo()
			made.Until = trace.Now()
		}
		note(made)
	}
}

func choose[X any](i *Injector, faults []Fault[X]) Fault[X] {
	sum := 0
	for _, f := range faults {
		sum += f.Weight
	}
	n := i.IntN(sum)
	for _, f := range faults {
		if n -= f.Weight; n < 0 {
			return f
		}
	}
	panic("the weights do not add up")
}

// Between returns a random duration between two bounds in milliseconds.
func (i *Injector) Between(least, most int) time.Duration {
	return time.Duration(least+i.IntN(most-least+1)) * time.Millisecond
}

// Wall sometimes returns an environment that gives a process a wrong wall clock. Otherwise the environment is empty.
func (i *Injector) Wall() (env []string, detail string) {
	switch i.IntN(6) {
	case 0:
		return []string{"ARES_TEST_WALL_SHIFT=3600"}, "; then its wall clock is 1 h fast"
	case 1:
		return []string{"ARES_TEST_WALL_SHIFT=-3600"}, "; then its wall clock is 1 h slow"
	}
	return nil, ""
}

// Select returns the faults of the given kinds, which are separated by commas: all for "", and none for "none".
func Select[X any](t testing.TB, faults []Fault[X], kinds string) []Fault[X] {
	t.Helper()
	switch kinds {
	case "":
		return faults
	case "none":
		return nil
	}
	var out []Fault[X]
	for kind := range strings.SplitSeq(kinds, ",") {
		k := slices.IndexFunc(faults, func(f Fault[X]) bool { return f.Kind == kind })
		if k < 0 {
			t.Fatalf("there is no fault %q; see the list of the suite's faults", kind)
		}
		out = append(out, faults[k])
	}
	return out
}

// Reserved holds the names of the targets that a fault disturbs now, so that two faults do not disturb the same one. The zero
// value has none.
type Reserved struct {
	mu    sync.Mutex
	names map[string]bool
}

// Take reserves a target. It returns false if another fault has it.
func (r *Reserved) Take(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] {
		return false
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	r.names[name] = true
	return true
}

// Drop ends the reservation of a target.
func (r *Reserved) Drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.names, name)
}

// Both returns a function that runs several functions in order.
func Both(undo ...func()) func() {
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

// For describes how long a fault lasts.
func For(d time.Duration) string { return fmt.Sprintf("for %s", d.Round(time.Millisecond)) }
