package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
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

// isEmpty reports whether the trash of the working directories is empty.
func isEmpty(t *testing.T, dir string) bool {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(dir, workDir, trashDir))
	if err != nil {
		t.Fatal(err)
	}
	return len(left) == 0
}

// TestAJobCannotBrickItsNode nests directories in a job's working directory deeper than the number of files that the agent may open. The
// allocation must be released, the working directory must be gone, and the trash must become empty.
func TestAJobCannotBrickItsNode(t *testing.T) {
	d := newDoor(t)
	h := newHands(t, d, t.TempDir())
	released := filepath.Join(h.dir, "released")
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, "while ! test -e "+released+"; do sleep 0.01; done"))
	eventually(t, "its start", func() bool { return h.says("seat started") })
	scratch := filepath.Join(h.dir, workDir, run.Key{Job: "job-x", Fence: 100}.String())
	nest(t, scratch, 6000)
	fewFiles(t, 256)
	if err := os.WriteFile(released, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its release", func() bool { return len(d.said("release")) > 0 })
	eventually(t, "its working directory to be gone", func() bool { _, err := os.Lstat(scratch); return os.IsNotExist(err) })
	eventually(t, "the trash to become empty", func() bool { return isEmpty(t, h.dir) })
	if h.says("remove a seat's working directory") {
		t.Error("the working directory could not be removed")
	}
}

// TestTheStartOfAnAgentCleansUp starts an agent whose directory has the working directory of a seat that ended long ago, and a full trash.
// The agent must open its session, and must delete both.
func TestTheStartOfAnAgentCleansUp(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, workDir, run.Key{Job: "job-old", Fence: 7}.String())
	rest := filepath.Join(dir, workDir, trashDir, "rest")
	for _, d := range []string{old, rest} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		nest(t, d, 6000)
	}
	fewFiles(t, 256)
	newHands(t, newDoor(t), dir)
	eventually(t, "the old working directory to be gone", func() bool { _, err := os.Lstat(old); return os.IsNotExist(err) })
	eventually(t, "the trash to become empty", func() bool { return isEmpty(t, dir) })
}
