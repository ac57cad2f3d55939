//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// No password file contains these two users.
var tenantA, tenantB = &User{UID: 1879048200, GID: 1879048200}, &User{UID: 1879048201, GID: 1879048201}

// The function `apart` adds every kind of isolation to a spec.
func apart(spec Spec) Spec {
	spec.User, spec.Sandbox.Private, spec.Sandbox.Seccomp, spec.Sandbox.Scoped = tenantA, true, canFilter(), true
	spec.Limits = Limits{MilliCPU: 4000, MemoryMB: 1024, Pids: 200}
	return spec
}

// If setApart is true, the test helper `start` calls the function `apart` to isolate every job.
var setApart bool

// The method `open` returns a directory that every user may write to.
func (w *world) open() string { return w.openIn("") }

// openIn is like the method `open`, but creates the directory inside the given parent.
func (w *world) openIn(parent string) string {
	w.Helper()
	dir, err := os.MkdirTemp(parent, "ares-open-*")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root has other users")
	}
}

// The method `limited` reports whether this machine has a working cgroup controller with the given name. If the
// controller is missing, the method checks that the runner reports this, and that jobs with such a limit still run.
func (w *world) limited(controller string) bool {
	w.Helper()
	if w.limits.has(controller) {
		return true
	}
	w.Logf("no controller for %s here", controller)
	if slices.Contains(w.Means().Limited, controller) {
		w.Errorf("means %+v", w.Means())
	}
	w.want(w.start(apart(sh("true"))), Exited, 0)
	return false
}

// TestFaultsApart repeats the fault tests with isolated jobs.
func TestFaultsApart(t *testing.T) {
	needRoot(t)
	setApart = true
	defer func() { setApart = false }()
	for name, test := range map[string]func(*testing.T){
		"Stop": TestStop, "StopIgnored": TestStopIgnored, "Kill": TestKill, "MaxRuntime": TestMaxRuntime,
		"OrphanDies": TestOrphanDies, "SupervisorKilled": TestSupervisorKilled, "SupervisorStopped": TestSupervisorStopped,
		"SupervisorTerminated": TestSupervisorTerminated, "Fenced": TestFenced, "RenewalKeepsAlive": TestRenewalKeepsAlive,
		"NeverSpawnsLate": TestNeverSpawnsLate, "Readopted": TestReadopted, "FindAll": TestFindAll,
		"StraysAreKilled": TestStraysAreKilled, "TwoSeats": TestTwoSeats, "Uncontained": TestUncontained,
	} {
		t.Run(name, test)
	}
}

// The method `intrude` runs the intruder program as tenant A, and returns the result of each operation that
// it attempts.
func (w *world) intrude(spoil func(*Spec), attempts ...string) map[string]string {
	w.Helper()
	spec := apart(sh(""))
	spec.Key = key("intruder")
	spec.Sandbox.Scratch = w.withIntruder()
	w.setUserID(filepath.Join(spec.Sandbox.Scratch, "set-user-id"))
	spec.Argv = append([]string{SandboxWork + "/intruder"}, attempts...)
	if spoil != nil {
		spoil(&spec)
	}
	w.want(w.start(spec), Exited, 0)
	return answers(w.log(spec.Key))
}

// withIntruder returns a directory that every user may write to, with the intruder program.
func (w *world) withIntruder() string {
	w.Helper()
	dir := w.open()
	if err := os.Link(intruderPath, filepath.Join(dir, "intruder")); err != nil {
		w.Fatal(err)
	}
	return dir
}

// setUserID creates a program that is set-user-ID root and prints the user it runs as.
func (w *world) setUserID(path string) {
	w.Helper()
	b, err := os.ReadFile("/usr/bin/id")
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err == nil {
		err = os.Chmod(path, 0o755|os.ModeSetuid)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// TestSandbox checks what a job in a sandbox sees of itself. The job has its own user, no capabilities, only the
// configured groups, and its own files.
func TestSandbox(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	const hidden = "/etc/hosts" // stands for a device: every user may read it
	before, cannot := os.ReadFile(hidden)
	if cannot != nil {
		t.Fatal(cannot)
	}
	spec := apart(sh(`id -u; id -G; grep -E "^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)" /proc/self/status; ulimit -c
		echo 50 half > "$ARES_PROGRESS_FILE"; touch "$ARES_CHECKPOINT_FILE"; echo "$TMPDIR $ARES_PROGRESS_FILE"; pwd; echo made > mine
		cat ` + hidden + `; ls /tmp /var/tmp; mktemp > /dev/null && ls /tmp | wc -l; test -d /proc/1 || echo alone; ls ` + seat.SandboxDir))
	scratch := t.TempDir()
	if err := os.Chown(scratch, int(tenantA.UID), int(tenantA.GID)); err != nil {
		t.Fatal(err)
	}
	spec.User = &User{UID: tenantA.UID, GID: tenantA.GID, Groups: []uint32{44}}
	spec.Sandbox = Sandbox{Private: true, OwnTmp: true, Scratch: scratch, Hide: []string{hidden}}
	spec.Dir = SandboxWork
	p := w.start(spec)
	w.want(p, Exited, 0)
	want := `1879048200
1879048200 44
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapBnd:	0000000000000000
CapAmb:	0000000000000000
NoNewPrivs:	1
0
/tmp /run/ares/progress
/run/ares/work
cat: ` + hidden + `: Permission denied
/tmp:

/var/tmp:
1
alone
checkpoint
job
progress
tmp
work
`
	if log := w.log(spec.Key); log != want {
		t.Errorf("log\n%s\nwant\n%s", log, want)
	}
	if got, ok := p.Progress(); !ok || got != (Progress{50, "half"}) {
		t.Errorf("progress %v %v", got, ok)
	}
	if _, ok := p.Checkpointed(); !ok {
		t.Error("no checkpoint")
	}
	if b, err := os.ReadFile(filepath.Join(scratch, "mine")); err != nil || string(b) != "made\n" {
		t.Errorf("the job's file: %q, %v", b, err)
	}
	if b, err := os.ReadFile(hidden); err != nil || string(b) != string(before) {
		t.Errorf("on the machine itself: %q, %v", b, err)
	}
	if st, err := os.Stat(filepath.Join(w.dir, "seats", spec.Key.String())); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("seat directory: %v %v", st.Mode(), err)
	}
	if err := w.Forget(spec.Key); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(w.dir, "logs", spec.Key.String()))
	if err != nil || len(left) != 2 || left[0].Name() != seat.LogName(0) || left[1].Name() != seat.IndexName(0) {
		t.Errorf("left of it: %v %v", left, err)
	}
}

// TestSandboxIsLocked checks that a job cannot undo the isolation, even in its own user namespace, where it has every
// capability.
func TestSandboxIsLocked(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	spec := apart(sh(`for path in /etc/hosts /proc /tmp ` + seat.SandboxDir + `; do
			unshare --user --map-root-user --mount umount $path && echo uncovered $path
			unshare --user --map-root-user --mount umount --lazy $path && echo uncovered $path
		done
		unshare --user --map-root-user --mount mount -t proc proc /proc && echo all processes
		unshare --user --map-root-user --mount sh -c "mount --bind / /mnt && cat /mnt/etc/hosts" && echo around
		unshare --user --map-root-user true && echo allowed
		cat /etc/hosts || exit 0`))
	spec.Sandbox = Sandbox{Private: true, OwnTmp: true, Hide: []string{"/etc/hosts"}}
	w.want(w.start(spec), Exited, 0)
	log := w.log(spec.Key)
	for _, bad := range []string{"uncovered", "all processes", "around"} {
		if strings.Contains(log, bad) {
			t.Errorf("%s:\n%s", bad, log)
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if !w.limited("memory") {
		return
	}
	for i, script := range []string{
		"exec " + intruderPath + " eat=400",
		intruderPath + " eat=400 & wait; echo on; sleep 1000", // the process that exceeds the limit is not the main process
	} {
		spec := apart(sh(script))
		spec.Rank, spec.Limits.MemoryMB = i, 64
		begun := time.Now()
		res := w.wait(w.start(spec))
		if res.Outcome != OutOfMemory || res.Reason != "out of memory: limit 64 MB" {
			t.Errorf("after %v: %+v", time.Since(begun), res)
		}
	}
	spec := apart(sh("exec " + intruderPath + " eat=40"))
	spec.Rank, spec.Limits.MemoryMB = 9, 64
	w.want(w.start(spec), Exited, 0)
}

func TestForkBomb(t *testing.T) {
	needRoot(t)
	for _, controllers := range []bool{true, false} {
		w := newWorld(t)
		if !w.limited("pids") {
			return
		}
		if !controllers { // the user's processes are counted instead
			for name, g := range w.limits.v1 {
				if err := g.Remove(); err != nil {
					t.Fatal(err)
				}
				delete(w.limits.v1, name)
			}
			w.limits.v2 = nil
		}
		said := w.intrude(func(s *Spec) { s.Limits.Pids = 60 }, "bomb=200")["bomb=200"]
		var n int
		if _, err := fmt.Sscan(said, &n); err != nil || n < 20 || n > 60 {
			t.Errorf("controllers %v: %q children, limit 60", controllers, said)
		}
	}
}

func TestProcessorLimit(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if !w.limited("cpu") {
		return
	}
	spec := apart(sh("exec " + intruderPath + " burn=2000"))
	spec.Limits.MilliCPU = 250
	res := w.want(w.start(spec), Exited, 0)
	if used := res.CPU; used > time.Second { // out of 4 s on two cores, or 2 s on one
		t.Errorf("used %v of the processors in 2 s with a limit of a quarter of one", used)
	}
}

// TestSpawnErrorsApart checks the case in which the job's user cannot reach a file. The error must name that file
// before any process starts.
func TestSpawnErrorsApart(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	closed := t.TempDir() // below a directory of mode 0700
	program := filepath.Join(closed, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	mine := filepath.Join(w.openIn("/tmp"), "mine") // hidden from a job that has its own /tmp
	if err := os.WriteFile(mine, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		argv0, dir, want string
		tmp              bool
	}{
		{program, "/", "permission denied (for the job's own user, 1879048200)", false},
		{"true", closed, "directory " + closed + ": permission denied (for the job's own user", false},
		{mine, "/", "permission denied (for the job's own user", false},
		{mine, "/", "command not found: " + mine + " (for the job's own user, 1879048200, who has a /tmp of its own)", true},
	} {
		spec := apart(sh(""))
		spec.Rank, spec.Argv, spec.Dir, spec.Sandbox.OwnTmp = i, []string{c.argv0}, c.dir, c.tmp
		if res := w.want(w.start(spec), SpawnError, -1); !strings.Contains(res.Reason, c.want) {
			t.Errorf("%s in %s: %q, want %q", c.argv0, c.dir, res.Reason, c.want)
		}
	}
}

func TestKernels(t *testing.T) {
	for release, want := range map[string]bool{
		"6.18.44-fc\n": true, "5.8.0": true, "5.15.0-91-generic": true, "5.7.19": false, "4.18.0-513.el8.x86_64": false, "": false,
	} {
		if got := ownProc(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

func TestWhoHasUsers(t *testing.T) {
	const all, docker, few = "CapEff:\t000001fffeffffff\n", "Name:\tares\nCapEff:\t00000000a80425fb\n", "CapEff:\t0000000000000021\n"
	for _, c := range []struct {
		uid          int
		status, want string
	}{
		{0, all, ""},
		{0, docker, ""},
		{0, few, "the agent is root without CAP_DAC_OVERRIDE, CAP_SETGID, CAP_SETUID"},
		{0, "", "the agent is root without CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID"},
		{0, "CapEff:\tx\n", "its capabilities cannot be read"},
		{1000, all, "the agent is not root"},
	} {
		if got := noUsers(c.uid, c.status, nil); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%d %q: %q, want %q", c.uid, c.status, got, c.want)
		}
	}
}

// TestSandboxFails uses a machine that cannot isolate a job. The job must not run without isolation. The failure must
// count against the node and not against the job.
func TestSandboxFails(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	spec := apart(sh("true"))
	spec.Sandbox.Hide = []string{"/no/such/device"}
	if res := w.want(w.start(spec), Lost, -1); !strings.Contains(res.Reason, "set the job apart") {
		t.Errorf("result %+v", res)
	}
	w.noSandbox = "the test says so"
	spec.Rank = 1
	if _, err := w.Start(w.ctx, spec); err == nil {
		t.Error("started without a room")
	}
	spec.User = &User{UID: 0, GID: 5}
	if _, err := w.Start(w.ctx, spec); err == nil {
		t.Error("started as root")
	}
}
