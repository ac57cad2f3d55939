//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The errors with which the kernel denies an attack.
const (
	noAccess     = "permission denied"
	notPermitted = "operation not permitted"
	notThere     = "no such file or directory"
	noProcess    = "no such process"
	readOnly     = "read-only file system"
	anyError     = "*" // one of them
)

// An attack is an operation that the intruder program attempts, and how it must end: in a job without an image and in a command beside it,
// and in a job in an image.
type attack struct{ attempt, plain, image string }

// matches reports whether an attack ended as it must.
func matches(answer, want string) bool {
	if want != anyError {
		return strings.HasSuffix(answer, want)
	}
	return slices.ContainsFunc([]string{noAccess, notPermitted, notThere, noProcess, readOnly}, func(e string) bool { return strings.HasSuffix(answer, e) })
}

// asRoot lists how attacks end from a job that is root in its image, where that differs from other jobs in images. The job may become root
// again, but no other user, and may write to its image.
var asRoot = map[string]string{
	"setuid=0": "did", "setgroups=0": "did", "setuid=1": "invalid argument", "write=/etc/new": "did", "write=/bin/busybox": "",
}

// attacks returns all attacks on the agent, on the job of another tenant, and on the machine.
func (w *world) attacks(token string, other Spec, victim *Proc) []attack {
	pid, job := fmt.Sprint(victim.Pid()), filepath.Join(w.dir, "seats", other.Key.String())
	supervisor, me := fmt.Sprint(w.supervisorPid(victim)), fmt.Sprint(os.Getpid())
	list := []attack{
		{"open files=", "none", "none"}, // first, because later attempts leave files open
		{"read=" + token, noAccess, notThere}, {"list=" + w.dir, noAccess, notThere}, {"write=" + w.dir + "/new", noAccess, notThere},
		{"read=" + job + "/spec", noAccess, notThere}, {"write=" + job + "/tmp/x", noAccess, notThere}, {"write=" + other.Sandbox.Scratch + "/x", noAccess, notThere},
		{"read=/etc/shadow", noAccess, notThere}, {"list=/root", "", notThere}, {"read=/etc/machine-id", "", notThere},
		{"write=/etc/resolv.conf", noAccess, noAccess}, {"write=/bin/busybox", "", noAccess}, {"write=" + seat.SandboxInside, noAccess, noAccess}, {"read=/proc/kcore", anyError, notThere},
		{"read=/proc/" + pid + "/environ", notThere, notThere}, {"read=/proc/" + me + "/environ", notThere, notThere},
		{"list=/proc/" + supervisor, notThere, notThere}, {"list=/proc/" + pid + "/root", notThere, notThere},
		{"kill=" + pid, notPermitted, noProcess}, {"kill=" + supervisor, notPermitted, noProcess}, {"kill=" + me, notPermitted, noProcess},
		{"ptrace=" + pid, notPermitted, noProcess}, {"ptrace=" + me, notPermitted, noProcess},
		{"setuid=0", notPermitted, notPermitted}, {"setuid=1", notPermitted, notPermitted}, {"setgroups=0", notPermitted, notPermitted}, {"write=/etc/new", noAccess, noAccess}, {"nice=-5", noAccess, noAccess},
		{"mknod=/tmp/device", notPermitted, notPermitted}, {"mount=/tmp", notPermitted, notPermitted}, {"umount=/proc", notPermitted, notPermitted}, {"umount=" + seat.SandboxDir, notPermitted, notPermitted},
		{"write=/proc/sys/kernel/core_pattern", noAccess, anyError}, {"write=/sys/kernel/uevent_helper", anyError, anyError},
		{"write=" + seat.SandboxDir + "/new", noAccess, noAccess}, {"run=" + SandboxWork + "/set-user-id", "uid=1879048200 gid=1879048200 groups=1879048200", ""},
		// A process of the machine that is in a container must not lead out of it (CVE-2019-5736, CVE-2024-21626).
		{"write=/proc/self/exe", anyError, anyError},
		{"write=" + seat.SandboxTmp + "/mine", "did", "did"}, // otherwise the test would prove nothing
	}
	if canFilter() {
		// open_by_handle_at is the attack "Shocker", keyctl CVE-2016-0728, userfaultfd a step of many exploits.
		for _, call := range []string{
			"bpf", "setns", "mount", "move_mount", "open_tree", "fsopen", "pivot_root", "open_by_handle_at", "keyctl", "add_key", "userfaultfd",
			"io_uring_setup", "perf_event_open", "init_module", "finit_module", "kexec_load", "reboot", "quotactl",
		} {
			list = append(list, attack{"call=" + call, notPermitted, notPermitted})
		}
	}
	// The first process of the machine is invisible, and that of a container is the job's own.
	list = append(list, attack{"kill=1", notPermitted, "did"}, attack{"read=/proc/1/environ", notThere, "did"})
	own := string(w.defaultGroup(key("intruder")))
	paths := []string{
		"/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", "/sys/power/state", "/dev/mem", "/dev/kmsg",
		"/dev/loop-control", "/dev/loop0", "/dev/userfaultfd", "/dev/btrfs-control", "/dev/tty1",
		string(w.defaultGroup(other.Key)) + "/cgroup.kill", string(w.defaultGroup(other.Key)) + "/job/cgroup.procs",
	}
	agents, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent") // CVE-2022-0492
	for _, path := range append(paths, agents...) {
		if _, err := os.Stat(path); err == nil {
			list = append(list, attack{"write=" + path, anyError, anyError})
		}
	}
	return append(list, attack{"write=" + own + "/job/cgroup.procs", anyError, anyError}, attack{"write=" + own + "/job/pids.max", anyError, anyError})
}

// TestIntruder checks that neither a job, nor a job in an image, nor a command of a session beside a job can reach the agent, its files, or the
// jobs of other tenants.
func TestIntruder(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	token := filepath.Join(w.dir, "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := sh("echo up; sleep 1000")
	other.User, other.Sandbox.Private, other.Sandbox.Scratch = tenantB, true, w.open()
	victim := w.start(other)
	w.untilUp(other.Key)
	if err := os.Chmod(other.Sandbox.Scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	all := w.attacks(token, other, victim)
	inImage := func(rank int, root bool) func(attempts []string) map[string]string {
		return func(attempts []string) map[string]string {
			return w.intrude(func(s *Spec) {
				scratch, argv := s.Sandbox.Scratch, s.Argv
				*s = w.inImage(*s)
				s.Rank, s.Argv, s.Container.Data, s.Sandbox.ShmMB, s.Sandbox.Scratch, s.Container.Root = rank, argv, "", 16, scratch, root
			}, attempts...)
		}
	}
	for name, from := range map[string]func(attempts []string) map[string]string{
		"job":             func(attempts []string) map[string]string { return w.intrude(nil, attempts...) },
		"session":         w.intrudeBeside,
		"image":           inImage(2, false),
		"root":            inImage(4, true),
		"session as root": func(attempts []string) map[string]string { return w.intrudeBesideImage(5, true, attempts) },
	} {
		t.Run(name, func(t *testing.T) {
			var attempts []string
			for _, a := range all {
				attempts = append(attempts, a.attempt)
			}
			said := from(attempts)
			for _, a := range all {
				want := a.plain
				if name != "job" && name != "session" {
					want = a.image
				}
				if other, differs := asRoot[a.attempt]; differs && strings.HasSuffix(name, "root") {
					want = other
				}
				if answer := said[a.attempt]; want != "" && !matches(answer, want) {
					t.Errorf("%s: %q, want %q", a.attempt, answer, want)
				}
			}
			if !lives(victim.Pid()) {
				t.Error("the other job is dead")
			}
		})
	}
	me := fmt.Sprint(os.Getpid())
	tmp, hidden := "write=/tmp/ares-mine-"+me, "list="+w.openIn("/tmp")
	said := w.intrude(func(s *Spec) { s.Sandbox.OwnTmp, s.Rank = true, 1 }, tmp, hidden, "umount=/tmp")
	if said[tmp] != "did" || !strings.HasSuffix(said[hidden], notThere) || !strings.HasSuffix(said["umount=/tmp"], notPermitted) {
		t.Errorf("with a /tmp of its own: %v", said)
	}
	if _, err := os.Stat("/tmp/ares-mine-" + me); err == nil {
		t.Error("the job's /tmp is the machine's")
	}
}

// intrudeBeside is like the method `intrude`, for a command of a session beside a job.
func (w *world) intrudeBeside(attempts []string) map[string]string {
	w.Helper()
	spec := apart(sh("sleep 1000"))
	spec.Key, spec.Rank = key("intruder"), 3
	spec.Sandbox.Scratch = w.withIntruder()
	w.setUserID(filepath.Join(spec.Sandbox.Scratch, "set-user-id"))
	p := w.start(spec)
	out, _, _, _ := w.output(w.exec(p, Command{Argv: append([]string{SandboxWork + "/intruder"}, attempts...)}), "")
	if err := p.Kill(w.ctx); err != nil {
		w.Error(err)
	}
	w.wait(p)
	return answers(out)
}
