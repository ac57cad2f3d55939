//go:build linux

package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// onDisk returns the spec of a job that has a file system of its own, with 32 MB.
func (w *world) onDisk(name, script string) Spec {
	spec := apart(sh(script))
	spec.Key = key(name)
	spec.Sandbox.Scratch, spec.Sandbox.OwnTmp, spec.Sandbox.DiskMB, spec.Dir = w.open(), true, 32, SandboxWork
	return spec
}

// needDisk skips a test where loop devices cannot be used, which is common in containers.
func needDisk(t *testing.T) *world {
	t.Helper()
	w := needSandbox(t)
	if why := noDisk(); why != "" {
		t.Skip("no file systems for jobs here: " + why)
	}
	spec := w.onDisk("probe", "true")
	if res := w.wait(w.start(spec)); res.Outcome == Lost && strings.Contains(res.Reason, "loop device") {
		t.Skip("no file systems for jobs here: " + res.Reason)
	}
	return w
}

// wantNoDisk checks that neither a mount nor a loop device is left of a job's own file system. The kernel removes them a moment after the
// last process has ended.
func (w *world) wantNoDisk(spec Spec) {
	w.Helper()
	w.eventually("the loop device is gone", func() bool {
		backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			w.Fatal(err)
		}
		return !slices.ContainsFunc(backing, func(path string) bool {
			b, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(b), spec.Sandbox.Disk())
		})
	})
}

// visibleIntruder returns the path of the intruder for a job that has a /tmp of its own and so does not see this one.
func visibleIntruder(t *testing.T) string {
	t.Helper()
	if !strings.HasPrefix(intruderPath, "/tmp/") {
		return intruderPath
	}
	dir, err := os.MkdirTemp("/var/lib", "ares-run-test-*") //nolint:usetesting // t.TempDir is below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.ReadFile(intruderPath)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "intruder")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(copied, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestDiskLimit checks that a job with a file system of its own holds neither more bytes nor more files, in /tmp and in its working
// directory together, and that nothing of it is left.
func TestDiskLimit(t *testing.T) {
	w := needDisk(t)
	spec := w.onDisk("full", `pwd; stat -c %u:%a . /tmp /var/tmp; grep -E " (/tmp|/run/ares/work) " /proc/self/mounts
		head -c 64M /dev/zero > big; echo said $?; head -c 1M /dev/zero > /tmp/more; echo tmp $?; rm big /tmp/more
		echo small > /tmp/small; cat /var/tmp/small; ls /run/ares; ls -A /run/ares/work; head -c 24M /dev/zero > again && echo again; rm again
		`+visibleIntruder(t)+` files=/tmp,5000; stat -f -c "records %c %d" /tmp; touch work; echo touch $?`)
	p := w.start(spec)
	w.want(p, Exited, 0)
	log := w.log(spec.Key)
	for _, want := range []string{
		SandboxWork + "\n1879048200:700\n1879048200:700\n1879048200:700\n", " /tmp ext4 rw,nosuid,nodev,", " /run/ares/work ext4 rw,nosuid,nodev,",
		"No space left on device", "said 1\n", "tmp 1\n", "small\ncheckpoint\njob\nprogress\ntmp\nwork\nagain\n",
		"files=/tmp,5000: open /tmp/", "no space left on device", "records 4096 0\n", "touch 1\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	w.wantNoDisk(spec)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), spec.Sandbox.Scratch) {
		t.Errorf("a mount is left: %v\n%s", err, mounts)
	}
	st, err := os.Stat(spec.Sandbox.Disk())
	if err != nil || st.Mode().Perm() != 0o600 || st.Size() != 32<<20 {
		t.Errorf("the file: %v, %v", st, err)
	}
}

// TestDiskEndsWithItsJob checks that the file system ends with the job's processes alone: a killed supervisor unmounts nothing, and an agent
// that starts later finds no mount.
func TestDiskEndsWithItsJob(t *testing.T) {
	w := needDisk(t)
	spec := w.onDisk("killed", "echo up > here; setsid sleep 1000 & echo up; wait")
	p := w.start(spec)
	w.untilUp(spec.Key)
	if err := syscall.Kill(w.supervisorPid(p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res := w.wait(p); res.Outcome != Lost {
		t.Errorf("%+v", res)
	}
	if err := w.EnsureDead(w.ctx, spec.Key); err != nil {
		t.Fatal(err)
	}
	w.wantNoDisk(spec)
}

// TestDiskAndMemory checks that directories with a size in memory are not on the job's own file system.
func TestDiskAndMemory(t *testing.T) {
	w := needDisk(t)
	spec := w.onDisk("both", "stat -f -c %T /tmp .")
	spec.Sandbox.TmpMB = 8
	w.want(w.start(spec), Exited, 0)
	if log := w.log(spec.Key); log != "tmpfs\next2/ext3\n" {
		t.Errorf("file systems %q", log)
	}
}

// TestNoDiskHere checks that a job does not run without its limit where file systems cannot be made, and that the error says what to do.
func TestNoDiskHere(t *testing.T) {
	w := needSandbox(t)
	program, control := mkfs, loopControl
	defer func() { mkfs, loopControl = program, control }()
	for i, c := range []struct{ mkfs, control, want string }{
		{"mkfs.none", control, "mkfs.none was not found: install e2fsprogs"},
		{"true", "/dev/no-loop-control", "this machine has no loop devices"},
		{"false", "/dev/null", "format the job's file system with 32 MB: exit status 1"},
	} {
		mkfs, loopControl = c.mkfs, c.control
		spec := w.onDisk("without", "true")
		spec.Rank = i
		if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	mkfs, loopControl = program, control
	spec := w.onDisk("without", "true")
	spec.Sandbox.Private, spec.Rank = false, 9
	if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), "without a sandbox") {
		t.Error(err)
	}
	if spec.Sandbox.DiskMB = -1; spec.Check() == nil {
		t.Error("a negative size")
	}
}

// TestDiskFiles checks the number of files that fit into a file system.
func TestDiskFiles(t *testing.T) {
	for mb, want := range map[int64]int64{16: 4096, 1024: 65536, seat.MaxDiskMB: 16 << 20} {
		if got := seat.DiskFiles(mb); got != want {
			t.Errorf("%d MB: %d files, want %d", mb, got, want)
		}
	}
}

// TestReportsAreLimited checks that a job cannot fill the agent's disk through the files with which it reports to the agent.
func TestReportsAreLimited(t *testing.T) {
	w := newWorld(t)
	spec := sh(`head -c 8M /dev/zero > "$ARES_CHECKPOINT_FILE"; head -c 8M /dev/zero > "$ARES_PROGRESS_FILE"; printf '\n50 half\n' >> "$ARES_PROGRESS_FILE"`)
	p := w.start(spec)
	w.want(p, Exited, 0)
	if got, ok := p.Progress(); !ok || got != (Progress{50, "half"}) {
		t.Errorf("progress %v %v", got, ok)
	}
	at, ok := p.Checkpointed()
	if again, still := p.Checkpointed(); !ok || !still || !again.Equal(at) {
		t.Errorf("checkpoint at %v %v, then at %v %v", at, ok, again, still)
	}
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile} {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(w.dir, seatPath(spec.Key, name)), &st); err != nil || st.Blocks*512 > maxReport {
			t.Errorf("%s still takes %d bytes, %v", name, st.Blocks*512, err)
		}
	}
}
