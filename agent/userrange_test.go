package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

func openRange(t *testing.T, dir, text string) *isolation {
	t.Helper()
	cfg := DefaultIsolation()
	cfg.Mode, cfg.UserRange = IsolateJob, text
	i, err := openIsolation(cfg, whole(), dir)
	if err != nil {
		t.Fatal(err)
	}
	i.users.busy = func() map[uint32]bool { return nil }
	return i
}

// TestUserRange checks, for random sequences of jobs that begin and end and of restarts, that a job keeps its user, and that no other job
// has it at the same time.
func TestUserRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, size := t.TempDir(), rapid.IntRange(1, 6).Draw(rt, "size")
		text := fmt.Sprintf("200000-%d", 200000+size-1)
		i, has := openRange(t, dir, text), map[ares.JobID]uint32{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			job := ares.JobID(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(rt, "job"))
			switch rapid.SampledFrom([]string{"begin", "begin", "end", "restart"}).Draw(rt, "step") {
			case "begin":
				u, err := i.ofJob("t", job)
				if len(has) == size && has[job] == 0 {
					if !errors.Is(err, errNoUser) {
						rt.Fatalf("%s is %+v in a full range, %v", job, u, err)
					}
					continue
				}
				if err != nil || u.UID < 200000 || int(u.UID) >= 200000+size || u.GID != u.UID || has[job] != 0 && has[job] != u.UID {
					rt.Fatalf("%s was %d and is %+v, %v", job, has[job], u, err)
				}
				for other, uid := range has {
					if other != job && uid == u.UID {
						rt.Fatalf("%s is the user of %s: %d", job, other, uid)
					}
				}
				has[job] = u.UID
			case "end":
				delete(has, job)
				if err := i.users.keepOnly(func(j ares.JobID) bool { return has[j] != 0 }); err != nil {
					rt.Fatal(err)
				}
			case "restart":
				i = openRange(t, dir, text)
			}
		}
	})
}

// TestUserRangeOfLeftovers checks that no job gets the user of a process that is left, of an account, or of a tenant with a configured user.
// It also checks that a UID is used again as late as possible.
func TestUserRangeOfLeftovers(t *testing.T) {
	i := openRange(t, t.TempDir(), "200000-200004")
	i.users.busy = func() map[uint32]bool { return map[uint32]bool{200000: true} }
	i.exists = func(uid string) bool { return uid == "200001" }
	i.named["prod"] = &run.User{UID: 200002, GID: 200002}
	for n, want := range []uint32{200003, 200004, 200003} {
		job := ares.JobID(fmt.Sprint("job-", n))
		u, err := i.ofJob("t", job)
		if err != nil || u.UID != want {
			t.Fatalf("%s is %+v, want %d, which has a process, an account or a tenant: %v", job, u, want, err)
		}
		if err := i.users.keepOnly(func(ares.JobID) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	if u, err := i.ofJob("prod", "job-p"); err != nil || u.UID != 200002 {
		t.Errorf("a tenant with a configured user: %+v, %v", u, err)
	}
	if !busyUsers()[uint32(os.Getuid())] {
		t.Error("this process is not found")
	}
	if err := os.Mkdir(i.users.path+".tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	if u, err := i.ofJob("t", "job-x"); !errors.Is(err, errNoUser) {
		t.Errorf("a user that cannot be stored: %+v, %v", u, err)
	}
}

// TestNoDiskIsReported checks that the description and isolation.require mention a missing limit of disk space.
func TestNoDiskIsReported(t *testing.T) {
	means := whole()
	means.NoDisk = "the test says so"
	cfg := DefaultIsolation()
	cfg.Require = true
	if i := mustOpen(t, cfg, means); strings.Contains(i.describe(), "disk") || i.refusalReason() != "" {
		t.Errorf("not asked for, but %s\n%s", i.describe(), i.refusalReason())
	}
	cfg.DiskMB = 64
	i := mustOpen(t, cfg, means)
	if !strings.Contains(i.describe(), "; no limit of disk space (the test says so)") || !strings.Contains(i.refusalReason(), "a limit of disk space (the test says so)") {
		t.Errorf("%s\n%s", i.describe(), i.refusalReason())
	}
	cfg.Mode = IsolateNone
	if i := mustOpen(t, cfg, means); !strings.Contains(i.describe(), "no limit of disk space (jobs run as the agent's user)") {
		t.Error(i.describe())
	}
}

// TestJobsOnDisk runs two jobs with users of a range and file systems of their own, through a restart of the agent. Their users differ, and
// nothing of them is left.
func TestJobsOnDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has other users")
	}
	cfg := DefaultIsolation()
	cfg.Mode, cfg.UserRange, cfg.DiskMB = IsolateJob, "200000-200009", 32
	d, dir := newDoor(t), t.TempDir()
	h := newHandsApart(t, d, dir, cfg)
	if means := h.runner.Means(); means.NoDisk != "" || !means.Sandbox {
		t.Skip("no file systems for jobs here: " + means.NoDisk + means.NoSandbox)
	}
	const script = `id -u; id -g; stat -c %u:%a . /tmp; head -c 64M /dev/zero > big; echo said $?; while ! test -e /etc/ares-never; do sleep 0.05; done`
	for n, job := range []string{"job-x", "job-y"} {
		o := seatOf(int64(100+n), ares.SeatPlaced, time.Hour, script)
		o.Seat.JobId, o.Shares = job, nil
		o.Spec.WorkingDir = "/tmp"
		d.order(o)
	}
	said := func(key run.Key) string {
		log, err := h.runner.OpenLog(key)
		if err != nil {
			return ""
		}
		defer func() { _ = log.Close() }()
		buf := make([]byte, 64<<10)
		n, _ := log.Next(t.Context(), buf, false)
		return string(buf[:n])
	}
	keys := []run.Key{{Job: "job-x", Fence: 100}, {Job: "job-y", Fence: 101}}
	eventually(t, "both to fill their disks", func() bool {
		if h.says("loop device") {
			t.Skip("no loop devices here")
		}
		return strings.Contains(said(keys[0]), "said 1") && strings.Contains(said(keys[1]), "said 1")
	})
	users := func() string {
		b, err := os.ReadFile(filepath.Join(dir, "users"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var owners []string
	for _, key := range keys {
		uid, _, _ := strings.Cut(said(key), "\n")
		if want := uid + "\n" + uid + "\n" + uid + ":700\n" + uid + ":700\n"; !strings.HasPrefix(said(key), want) || !strings.Contains(said(key), "No space left on device") {
			t.Errorf("%s: %s", key, said(key))
		}
		if slices.ContainsFunc(owners, func(other string) bool { return strings.HasPrefix(other, uid) }) {
			t.Errorf("both are %s", uid)
		}
		owners = append(owners, uid+" "+key.Job+"\n")
	}
	slices.Sort(owners)
	if want := strings.Join(owners, "") + "next 200002\n"; users() != want {
		t.Errorf("users\n%swant\n%s", users(), want)
	}
	before := users()
	h.stop()
	h = newHandsApart(t, d, dir, cfg)
	if users() != before {
		t.Errorf("after a restart, users\n%sinstead of\n%s", users(), before)
	}
	for n, job := range []string{"job-x", "job-y"} {
		o := seatOf(int64(100+n), ares.SeatClaimed, time.Hour, script)
		o.Seat.JobId, o.Shares, o.Stop = job, nil, "the test is over"
		d.order(o)
	}
	eventually(t, "their release", func() bool { return len(d.said("release")) > 1 })
	eventually(t, "the end of their directories", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, workDir))
		return err == nil && len(left) == 1 && isEmpty(t, dir)
	})
	eventually(t, "the end of their users", func() bool { return users() == "next 200002\n" })
}
