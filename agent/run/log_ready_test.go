//go:build linux

package run

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// TestLogOfASeatThatIsNotReady checks that a reader who comes while a seat is being created does not take its log for one that has ended:
// first at each step of the creation, and then with readers that run beside the start of real jobs.
func TestLogOfASeatThatIsNotReady(t *testing.T) {
	w := newWorld(t)
	spec := sh("true")
	spec.Default()
	order := seat.Order{Spec: spec, Cgroup: string(w.defaultGroup(spec.Key)), Mark: w.mark(spec.Key)}
	if err := w.place(&order); err != nil {
		t.Fatal(err)
	}
	if err := w.root.Mkdir(seatsDir+"/"+spec.Key.String(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.OpenLog(spec.Key); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("log of a seat without a lock: %v, want %v", err, fs.ErrNotExist)
	}
	lock, err := w.furnish(w.ctx, order, false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.OpenLog(spec.Key)
	if err != nil {
		t.Fatal(err)
	}
	if l.Source().Ended() {
		t.Error("the log of a seat that is about to start has ended")
	}
	if err := errors.Join(l.Close(), lock.Close()); err != nil {
		t.Fatal(err)
	}

	for rank := range 25 {
		spec := sh("echo output")
		spec.Rank = rank + 1
		var got string
		var reading sync.WaitGroup
		reading.Go(func() {
			l, err := w.OpenLog(spec.Key)
			for errors.Is(err, fs.ErrNotExist) && w.ctx.Err() == nil {
				l, err = w.OpenLog(spec.Key)
			}
			if err != nil {
				t.Error(err)
				return
			}
			got = drainLog(w.ctx, t, l, true)
			_ = l.Close()
		})
		w.want(w.start(spec), Exited, 0)
		reading.Wait()
		if got != "output\n" {
			t.Fatalf("run %d: the follower read %q", rank, got)
		}
	}
	if _, err := w.root.Lstat(seatPath(spec.Key, newLockFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock's first name is left: %v", err)
	}
}
