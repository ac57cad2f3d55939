//go:build linux

package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The function `nest` makes a chain of directories. Its paths are longer than the kernel accepts.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	name := strings.Repeat("d", 40)
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < depth && err == nil; i++ {
		if err = unix.Mkdirat(fd, name, 0o700); err == nil {
			var next int
			next, err = unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			_ = unix.Close(fd)
			fd = next
		}
	}
	_ = unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
}

// fewFiles limits how many files this process may open until the test ends.
func fewFiles(t *testing.T, n uint64) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) })
}

// TestNoTreeBlocksForget checks that a job cannot make its node unusable. Its private /tmp is nested deeper than the number of files that
// the agent may open, so that it cannot be deleted recursively. Forget must succeed and remove the job's environment, the next start must
// succeed, and the trash must become empty.
func TestNoTreeBlocksForget(t *testing.T) {
	w := newWorld(t)
	spec := sh("echo out")
	spec.Env = append(spec.Env, "SECRET=hunter2")
	w.want(w.start(spec), Exited, 0)
	nest(t, filepath.Join(w.dir, seatPath(spec.Key, seat.TmpDir)), 6000)
	fewFiles(t, 256)
	if err := w.Forget(spec.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := w.root.Lstat("logs/" + spec.Key.String() + "/" + seat.SpecFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spec is still there: %v", err)
	}
	w = w.again()
	if err := w.Untidy(); err != nil {
		t.Error(err)
	}
	if got := w.log(spec.Key); got != "out\n" {
		t.Errorf("log %q", got)
	}
	w.Trash().Rate = 1_000_000
	if err := w.Trash().Empty(w.ctx); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(w.dir, trashDir)); err != nil || len(left) > 0 {
		t.Errorf("the trash still has %v, %v", left, err)
	}
}

// TestLeftoversDoNotBlockTheStart checks the same for a tree that an earlier agent could not delete, beside another seat's files. Open must
// succeed, and must tidy both.
func TestLeftoversDoNotBlockTheStart(t *testing.T) {
	w := newWorld(t)
	deep, other := key("deep").String(), key("other").String()
	for _, dir := range []string{deep + "/" + seat.TmpDir, other} {
		if err := w.root.MkdirAll(logsDir+"/"+dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{deep, other} {
		if err := w.root.WriteFile(logsDir+"/"+name+"/"+seat.SpecFile, []byte("SECRET=hunter2"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nest(t, filepath.Join(w.dir, logsDir, deep, seat.TmpDir), 6000)
	fewFiles(t, 256)
	w = w.again()
	if left, err := os.ReadDir(filepath.Join(w.dir, logsDir)); err != nil || len(left) > 0 {
		t.Errorf("logs still has %v, %v", left, err)
	}
	w.Trash().Rate = 1_000_000
	if err := w.Trash().Empty(w.ctx); err != nil {
		t.Error(err)
	}
}

// TestAFailingCleanUpDoesNotBlockTheStart makes the clean-up itself impossible: the directory of a forgotten seat is a mount point. Open
// must succeed and report it.
func TestAFailingCleanUpDoesNotBlockTheStart(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, logsDir, key("held").String(), "mounted")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() { // the directory above it may be in the trash
		moved, _ := filepath.Glob(filepath.Join(w.dir, trashDir, "*", "mounted"))
		for _, at := range append(moved, dir) {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	})
	if w.again().Untidy() == nil {
		t.Error("a directory that cannot be removed was not reported")
	}
}

// TestForgetReadsOnlyItsOwnLog checks that the cost of a Forget does not depend on the number of stored logs. A file that was put beside
// the log of another seat must stay until all logs are read again, at the latest after rescanAfter seats.
func TestForgetReadsOnlyItsOwnLog(t *testing.T) {
	w := newWorld(t)
	run := func(rank int) {
		spec := sh("echo out")
		spec.Rank = rank
		w.want(w.start(spec), Exited, 0)
		if err := w.Forget(spec.Key); err != nil {
			t.Fatal(err)
		}
	}
	run(0)
	other := filepath.Join(w.dir, logsDir, Key{Job: "job", Fence: 7, Rank: 0}.String(), "planted")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run(1)
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the second Forget has read the log of the first: %v", err)
	}
	w.kept.rescan = 0 // as after rescanAfter seats
	run(2)
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("not tidied: %v", err)
	}
	if n := len(w.kept.all); n != 3 {
		t.Errorf("%d logs are known, want 3", n)
	}
	w.KeepLogs = 2
	run(3)
	for rank := range 4 {
		_, err := w.OpenLog(Key{Job: "job", Fence: 7, Rank: rank})
		if gone := errors.Is(err, fs.ErrNotExist); gone != (rank < 2) {
			t.Errorf("log %d: %v", rank, err)
		}
	}
}
