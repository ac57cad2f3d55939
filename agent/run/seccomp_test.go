//go:build linux

package run

import (
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// canFilter reports whether this machine supports the filter of system calls. Where it does not, the other tests run without it.
var canFilter = sync.OnceValue(func() bool { return exec.Command(supervisorPath, seat.ProbeSeccomp).Run() == nil })

func needFilter(t *testing.T) {
	t.Helper()
	needRoot(t)
	if !canFilter() {
		t.Skip("no filter of system calls here")
	}
}

// TestSeccomp checks that the filter denies every call that changes the machine, and that programs with threads, children and shared
// memory run with it.
func TestSeccomp(t *testing.T) {
	needFilter(t)
	w := newWorld(t)
	const never, missing = "operation not permitted", "function not implemented"
	want := map[string]string{
		"call=clone3": missing, "clone=0x10000000": never, "clone=0x20000000": never, "clone=0x00020000": never, "clone=0": "did",
		"unshare=--user true": "exit status 1", "unshare=--user --map-root-user --mount mount -t tmpfs none /mnt": "exit status 1",
		"socket=40": never, "socket=1": "did", "personality=0x0040000": never, "personality=0xffffffff": "did", "compute=": "did",
		"mount=/tmp": never, "umount=/proc": never,
		// PTRACE_O_TRACEEXIT makes a process that SIGKILL does not end. The attempts name no process, so they are harmless without the filter.
		"options=0x4200,0x40": never, "options=0x4206,0x40": never, "options=21,0x40": never, "options=0x4206,0x10007f": never,
		"options=0x4200,0x10001f": "no such process", "options=0x4206,0x10": "no such process", "options=16,0x40": "no such process",
	}
	for _, name := range []string{
		"acct", "add_key", "bpf", "clock_settime", "delete_module", "fanotify_init", "finit_module", "fsopen", "init_module", "io_uring_setup",
		"kexec_load", "keyctl", "mount", "mount_setattr", "move_mount", "open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "quotactl",
		"reboot", "request_key", "setns", "settimeofday", "swapoff", "swapon", "umount2", "userfaultfd",
	} {
		want["call="+name] = never
	}
	w.compareAttempts(t, nil, want)
	// Without the filter, some of these calls reach the kernel. The test would otherwise prove nothing.
	said := w.intrude(func(s *Spec) { s.Sandbox.Seccomp, s.Rank = false, 1 }, "call=keyctl", "call=clone3", "personality=0x0040000")
	for attempt, answer := range said {
		if strings.HasSuffix(answer, never) || strings.HasSuffix(answer, missing) {
			t.Errorf("without the filter, %s: %s", attempt, answer)
		}
	}
}

// compareAttempts runs the intruder program and compares the result of each attempt with the expected one.
func (w *world) compareAttempts(t *testing.T, spoil func(*Spec), want map[string]string) {
	t.Helper()
	var attempts []string
	for a := range want {
		attempts = append(attempts, a)
	}
	said := w.intrude(spoil, attempts...)
	for a, answer := range want {
		if !strings.HasSuffix(said[a], answer) {
			t.Errorf("%s: %q, want %q", a, said[a], answer)
		}
	}
}

// TestUserNamespaces checks that the setting opens user namespaces and nothing else.
func TestUserNamespaces(t *testing.T) {
	needFilter(t)
	w := newWorld(t)
	open := func(s *Spec) { s.Sandbox.UserNamespaces = true }
	w.compareAttempts(t, open, map[string]string{"call=bpf": "operation not permitted", "call=keyctl": "operation not permitted", "compute=": "did"})
	if exec.Command("/usr/bin/unshare", "--user", "true").Run() != nil {
		t.Skip("no user namespaces here")
	}
	w.compareAttempts(t, func(s *Spec) { open(s); s.Rank = 1 }, map[string]string{
		"unshare=--user --map-root-user --mount mount -t tmpfs none /mnt": "did",
	})
}

// TestSeccompInCgroup checks that a job with the filter is in its cgroup from its first instruction on. Such a job is moved there, and a
// job without the filter is created there.
func TestSeccompInCgroup(t *testing.T) {
	needFilter(t)
	w := newWorld(t)
	spec := apart(sh("cat /proc/self/cgroup; grep -E '^(Seccomp|TracerPid):' /proc/self/status"))
	w.want(w.start(spec), Exited, 0)
	for _, want := range []string{"/" + spec.Key.String() + "/job\n", "Seccomp:\t2\n", "TracerPid:\t0\n"} {
		if log := w.log(spec.Key); !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
}

// TestSeccompFails checks that a job does not run without the filter if it needs one.
func TestSeccompFails(t *testing.T) {
	w := newWorld(t)
	spec := sh("true")
	spec.Sandbox.Seccomp = true
	if _, err := w.Start(w.ctx, spec); err == nil {
		t.Error("started as the agent's user, who could not keep the filter")
	}
	w.noSeccomp, spec.User = "the test says so", tenantA
	if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), "the test says so") {
		t.Errorf("started without the filter: %v", err)
	}
}
