// Package envpoint is what a failpoint is in the supervisor, which must stay
// small: it knows the terms panic and sleep(milliseconds), from GOFAIL_FAILPOINTS.
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

// Point is one failpoint, by its name.
type Point string

// Acquire does what the failpoint's term says. It returns an error when there
// is none.
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
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // it cannot fail for oneself
			select {}                                      // until the signal arrives
		case isSleep && err == nil:
			time.Sleep(time.Duration(n) * time.Millisecond)
			return struct{}{}, nil
		}
		panic("failpoint " + term + ": a supervisor knows panic and sleep(milliseconds) only")
	}
	return nil, errOff
}

// BadType is never called: the only value is the empty one.
func (p Point) BadType(any, string) { panic("failpoint " + string(p) + " has no value") }
