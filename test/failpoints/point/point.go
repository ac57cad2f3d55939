// Package point is what a failpoint is in the failpoint build: gofail's, but
// that its term panic is kill -9. A real panic would be caught by the doors and
// would run what was deferred: an orderly end, which a lost machine is not.
package point

import (
	"fmt"
	"os"
	"syscall"

	"go.etcd.io/gofail/runtime"
)

// Point is one failpoint.
type Point struct{ gofail *runtime.Failpoint }

// New registers a failpoint under a name that no other has.
func New(name string) Point { return Point{runtime.NewFailpoint(name)} }

// Acquire does what the failpoint's term says. It returns an error when there
// is no value to act on.
func (p Point) Acquire() (any, error) {
	defer die()
	return p.gofail.Acquire()
}

// BadType complains of a value that the failpoint has no use for.
func (p Point) BadType(v any, want string) { p.gofail.BadType(v, want) }

// die turns a panic into the end of the process, before anything deferred
// elsewhere runs.
func die() {
	why := recover()
	if why == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "killed at a failpoint:", why)
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // until the signal arrives
}

// ByOp is a failpoint for each of some operations, and under "" one for all.
type ByOp map[string]Point

// Acquire asks the failpoint of an operation, then the one for all.
func (b ByOp) Acquire(op string) (any, error) {
	if p, ok := b[op]; ok {
		if v, err := p.Acquire(); err == nil {
			return v, nil
		}
	}
	return b[""].Acquire()
}

// BadType complains of a value that the failpoint has no use for.
func (b ByOp) BadType(v any, want string) { b[""].BadType(v, want) }
