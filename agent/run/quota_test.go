//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

func needSandbox(t *testing.T) *world {
	t.Helper()
	needRoot(t)
	w := newWorld(t)
	if w.noSandbox != "" {
		t.Skip("no sandbox here: " + w.noSandbox)
	}
	return w
}

// TestSharedMemoryLimit checks that a job cannot fill the machine's memory through /dev/shm, neither with bytes nor with files, and that
// nothing of it is left.
func TestSharedMemoryLimit(t *testing.T) {
	w := needSandbox(t)
	spec := apart(sh("head -c 64M /dev/zero > /dev/shm/ares-big; echo said $?; ls -l /dev/shm; rm /dev/shm/ares-big; exec " + SandboxWork + "/intruder files=/dev/shm,5000"))
	spec.Sandbox.ShmMB, spec.Sandbox.Scratch = 8, w.withIntruder()
	w.want(w.start(spec), Exited, 0)
	log := w.log(spec.Key)
	for _, want := range []string{"No space left on device", "said 1", " 8388608 ", "files=/dev/shm,5000: open /dev/shm/", "no space left on device"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if _, err := os.Stat("/dev/shm/ares-big"); err == nil {
		t.Error("the job's /dev/shm is the machine's")
	}
}

// TestRanksShareMemory checks that the ranks of one attempt have the same /dev/shm, that other jobs have another one, and that it is gone
// with the last rank.
func TestRanksShareMemory(t *testing.T) {
	w := needSandbox(t)
	rank := func(name string, n int, script string) Spec {
		spec := apart(sh(script))
		spec.Key = key(name)
		spec.Rank, spec.Sandbox.ShmMB, spec.Sandbox.ShareShm = n, 8, true
		return spec
	}
	first := rank("gang", 0, "echo hello > /dev/shm/x; echo up; while test -e /dev/shm/x; do sleep 0.01; done; stat -f -c %b /dev/shm")
	p := w.start(first)
	w.untilUp(first.Key)
	other := rank("other", 0, "ls /dev/shm")
	w.want(w.start(other), Exited, 0)
	second := rank("gang", 1, "cat /dev/shm/x && rm /dev/shm/x")
	w.want(w.start(second), Exited, 0)
	w.want(p, Exited, 0)
	if said := w.log(second.Key); said != "hello\n" {
		t.Errorf("rank 1 reads %q", said)
	}
	if said := w.log(other.Key); said != "" {
		t.Errorf("another job sees %q", said)
	}
	if said := w.log(first.Key); said != "up\n2048\n" { // blocks of 4 KiB
		t.Errorf("rank 0 says %q", said)
	}
	shm := w.sharedShm(first.Key)
	if err := w.Forget(first.Key); err != nil {
		t.Fatal(err)
	}
	if mounted, err := isMountPoint(shm); err != nil || !mounted {
		t.Errorf("rank 1 has lost its memory: %v, %v", mounted, err)
	}
	if err := w.Forget(second.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(shm); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", shm, err)
	}
	// What a killed agent leaves is removed at its next start.
	if err := os.MkdirAll(filepath.Join(w.dir, sharedShmDir, "gone.5"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.unmountShm()
	if left, err := os.ReadDir(filepath.Join(w.dir, sharedShmDir)); err != nil || len(left) != 1 { // the other job's
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestWorkLimit checks that a job cannot fill the agent's disk through its working directory.
func TestWorkLimit(t *testing.T) {
	w := needSandbox(t)
	spec := apart(sh("pwd; stat -c %u:%a .; head -c 64M /dev/zero > big; echo said $?; echo small > big; cat big"))
	spec.Sandbox.Scratch, spec.Sandbox.WorkMB, spec.Dir = w.open(), 8, SandboxWork
	w.want(w.start(spec), Exited, 0)
	log := w.log(spec.Key)
	for _, want := range []string{SandboxWork + "\n1879048200:700\n", "No space left on device", "said 1\nsmall\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if left, err := os.ReadDir(spec.Sandbox.Scratch); err != nil || len(left) != 0 {
		t.Errorf("on disk: %v, %v", left, err)
	}
}

// TestTmpLimit checks that a /tmp with a limit holds neither more bytes nor more files, and that a working directory in /tmp is in the
// job's own.
func TestTmpLimit(t *testing.T) {
	w := needSandbox(t)
	spec := apart(sh("pwd; touch here; echo a > /var/tmp/b; cat /tmp/b; stat -c %u:%a /tmp; head -c 64M /dev/zero > /tmp/big; echo said $?; rm /tmp/big; exec " + SandboxWork + "/intruder files=/tmp,5000"))
	spec.Sandbox.Scratch = w.withIntruder()
	spec.Dir, spec.Sandbox.OwnTmp, spec.Sandbox.TmpMB = "/tmp/ares-quota/deep", true, 8
	w.want(w.start(spec), Exited, 0)
	log := w.log(spec.Key)
	for _, want := range []string{"/tmp/ares-quota/deep\na\n1879048200:700\n", "No space left on device", "said 1\n", "no space left on device"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if _, err := os.Stat("/tmp/ares-quota"); err == nil {
		t.Error("the job's /tmp is the machine's")
	}
	if left, err := os.ReadDir(filepath.Join(w.dir, "seats", spec.Key.String(), seat.TmpDir)); err != nil || len(left) != 0 {
		t.Errorf("on disk: %v, %v", left, err)
	}
}
