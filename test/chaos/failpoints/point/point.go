// Package point implements failpoints for the failpoint build with gofail.
// Unlike in gofail, the action `panic` kills the process with SIGKILL. After a
// real panic, request handlers would recover and deferred functions would run.
// A panic would therefore not resemble a lost machine.
package point

import (
	"fmt"
	"os"
	"syscall"

	"go.etcd.io/gofail/runtime"
)

// Point is one failpoint.
type Point struct{ gofail *runtime.Failpoint }

// New registers a failpoint. The name must be unique.
func New(name string) Point { return Point{runtime.NewFailpoint(name)} }

// Acquire executes the action (term) that is set for the failpoint. Acquire
// returns the value of the action, or an error if there is no value.
func (p Point) Acquire() (any, error) {
	defer die()
	return p.gofail.Acquire()
}

// BadType reports a value of a type that the failpoint cannot use.
func (p Point) BadType(v any, want string) { p.gofail.BadType(v, want) }

// If the failpoint panics, the function `die` ends the process immediately,
// before other deferred functions run.
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

// ByOp holds one failpoint for each operation. The failpoint for all operations
// has the key "".
type ByOp map[string]Point

// Acquire executes the failpoint of the given operation. If no action is set
// for that failpoint, Acquire executes the failpoint for all operations.
func (b ByOp) Acquire(op string) (any, error) {
	if p, ok := b[op]; ok {
		if v, err := p.Acquire(); err == nil {
			return v, nil
		}
	}
	return b[""].Acquire()
}

// BadType reports a value of a type that the failpoint cannot use.
func (b ByOp) BadType(v any, want string) { b[""].BadType(v, want) }
