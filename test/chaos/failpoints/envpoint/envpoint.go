// Package envpoint implements failpoints for the supervisor, which must remain
// a small program. The package supports two actions, which gofail calls terms:
// panic and sleep(milliseconds). It reads them from GOFAIL_FAILPOINTS.
package envpoint

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errOff = errors.New("the failpoint is off")

// Point is the name of a failpoint.
type Point string

// Acquire executes the action (term) that is set for the failpoint. Acquire
// returns an error if no action is set.
func (p Point) Acquire() (any, error) {
	for term := range strings.SplitSeq(os.Getenv("GOFAIL_FAILPOINTS"), ";") {
		name, act, _ := strings.Cut(term, "=")
		if name != string(p) {
			continue
		}
		ms, isSleep := strings.CutPrefix(act, "sleep(")
		n, err := strconv.Atoi(strings.TrimSuffix(ms, ")"))
		switch {
		case act == "panic":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // signalling the own process cannot fail
			select {}                                      // until the signal arrives
		case isSleep && err == nil:
			time.Sleep(time.Duration(n) * time.Millisecond)
			return struct{}{}, nil
		}
		panic("failpoint " + term + ": a supervisor knows panic and sleep(milliseconds) only")
	}
	return nil, errOff
}

// BadType is never called, because the supervisor's failpoints have no values.
func (p Point) BadType(any, string) { panic("failpoint " + string(p) + " has no value") }
