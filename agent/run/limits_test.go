//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// These are the contents of the kernel's files on three kinds of machines.
const (
	hybridMounts = `25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
28 25 0:25 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
29 25 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
	hybridOwn  = "9:memory:/system.slice/ares\n8:cpu,cpuacct:/\n7:pids:/docker/abc\n1:name=systemd:/\n0::/system.slice/ares\n"
	v2Mounts   = "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	v2Own      = "0::/system.slice/ares-agent.service\n"
	noneMounts = "20 1 0:5 / /proc rw - proc proc rw\n"
)

func TestOwnGroups(t *testing.T) {
	for _, c := range []struct{ mounts, own, controller, want string }{
		{hybridMounts, hybridOwn, "memory", "/sys/fs/cgroup/memory/system.slice/ares"},
		{hybridMounts, hybridOwn, "cpu", "/sys/fs/cgroup/cpu,cpuacct"},
		{hybridMounts, hybridOwn, "pids", "/sys/fs/cgroup/pids"},
		{hybridMounts, hybridOwn, "devices", ""},
		{v2Mounts, v2Own, "memory", ""},
		{noneMounts, hybridOwn, "memory", ""},
	} {
		got, err := ownGroup(c.mounts, c.own, c.controller)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q %v, want %q", c.controller, got, err, c.want)
		}
	}
	for _, c := range []struct{ mounts, own, want string }{
		{hybridMounts, hybridOwn, "/sys/fs/cgroup/unified/system.slice/ares"},
		{v2Mounts, v2Own, "/sys/fs/cgroup/system.slice/ares-agent.service"},
		{noneMounts, v2Own, ""},
		{v2Mounts, "1:memory:/\n", ""},
	} {
		if got, err := ownCgroup(c.mounts, c.own); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q %v, want %q", got, err, c.want)
		}
	}
}

// TestBases checks the case in which the service manager starts the agent in a separate cgroup below the unit's cgroup.
func TestBases(t *testing.T) {
	for own, want := range map[string]string{
		"0::/system.slice/ares-agent.service\n":       "/sys/fs/cgroup/system.slice/ares-agent.service",
		"0::/system.slice/ares-agent.service/agent\n": "/sys/fs/cgroup/system.slice/ares-agent.service",
		"0::/\n": "/sys/fs/cgroup",
	} {
		got, err := bases(v2Mounts, own)
		if err != nil || got[0] != want {
			t.Errorf("%q: %v %v, want %s first", own, got, err, want)
		}
	}
}

// fakeV2 creates a directory that looks like a mounted cgroup2 file system. On a real system the kernel fills in these
// files.
func fakeV2(t *testing.T, controllers ...string) (base string, parent seat.Cgroup) {
	t.Helper()
	base = t.TempDir()
	dir := base
	for _, name := range []string{"", "ares", "id"} {
		dir = filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range controllers {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte(strings.Join(controllers, " ")), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(c), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return base, seat.Cgroup(dir)
}

// TestLimitsOfVersion2 checks that with cgroup version 2 the limits are set on the job's own cgroup, and that the job
// joins no other cgroup.
func TestLimitsOfVersion2(t *testing.T) {
	_, parent := fakeV2(t, "memory")
	l := newLimiter("id", parent, v2Mounts, v2Own)
	if strings.Join(l.v2, " ") != "memory" || len(l.v1) != 0 || !l.has("memory") || l.has("cpu") {
		t.Fatalf("%+v", l)
	}
	l.v2 = []string{"cpu", "memory", "pids"} // as the kernel would report
	o := seat.Order{Spec: Spec{Key: key("a"), Limits: Limits{MilliCPU: 2500, MemoryMB: 512, Pids: 100}}, Cgroup: string(parent) + "/a.7.0"}
	job := filepath.Join(o.Cgroup, seat.JobGroup)
	if err := os.MkdirAll(job, 0o755); err != nil {
		t.Fatal(err)
	}
	l.plan(&o)
	if o.MemoryGroup != job || o.CPUGroup != o.Cgroup || len(o.Groups) != 0 || o.PidsByUser {
		t.Errorf("planned %+v", o)
	}
	weight := filepath.Join(o.Cgroup, seat.SupervisorGroup, "cpu.weight")
	for _, file := range []string{weight, filepath.Join(o.Cgroup, "cpu.max")} { // the kernel would make them
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.furnish(&o, false); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cpu.max": "250000 100000", "memory.max": "536870912", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "100",
	} {
		if b, err := os.ReadFile(filepath.Join(job, file)); err != nil || string(b) != want {
			t.Errorf("%s: %q %v, want %q", file, b, err, want)
		}
	}
	if b, err := os.ReadFile(weight); err != nil || string(b) != "10000" {
		t.Errorf("the supervisor's weight is %q %v", b, err)
	}
	// The supervisor's processor time counts until its lease is in doubt. The files of the kernel have no old content, unlike these.
	for _, c := range []struct {
		do   func() error
		want string
	}{{func() error { return o.Charge(&seat.Charged{}) }, "250000 100000"}, {o.Uncharge, "max 100000"}} {
		if err := os.Truncate(filepath.Join(o.Cgroup, "cpu.max"), 0); err != nil {
			t.Fatal(err)
		}
		err := c.do()
		if got := readString(t, filepath.Join(o.Cgroup, "cpu.max")); got != c.want || err != nil {
			t.Errorf("the limit of the seat is %q, %v, want %q", got, err, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(job, "memory.events"), []byte("low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := seat.OOMKills(job); n != 3 {
		t.Errorf("killed %d", n)
	}
}

func readString(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestNoLimits checks that a job without resource requests gets neither limits nor a cgroup for limits.
func TestNoLimits(t *testing.T) {
	l := limiter{v2: []string{"cpu"}, v1: map[string]seat.Group{"memory": {Dir: "/nowhere"}, "pids": {Dir: "/nowhere"}}}
	o := seat.Order{Spec: Spec{Key: key("a")}, Cgroup: "/nowhere/a.7.0"}
	l.plan(&o)
	if err := l.furnish(&o, false); err != nil || o.MemoryGroup != "" || len(o.Groups) != 0 {
		t.Errorf("%v, planned %+v", err, o)
	}
	// If there is no pids controller and the job has its own user, the limit applies to all processes of that user.
	for _, u := range []*User{nil, tenantA} {
		o := seat.Order{Spec: Spec{Key: key("a"), User: u, Limits: Limits{Pids: 5, MemoryMB: 5}}}
		(&limiter{}).plan(&o)
		if o.PidsByUser != (u != nil) || o.MemoryGroup != "" {
			t.Errorf("planned %+v", o)
		}
	}
}
