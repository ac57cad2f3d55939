package agent

import (
	"fmt"
	"log/slog"
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

// The function `whole` returns the description of a machine that supports every kind of isolation.
func whole() run.Means {
	return run.Means{Users: true, Sandbox: true, Limited: []string{"cpu", "memory", "pids"}, CgroupVersion: 2}
}

func mustOpen(t *testing.T, cfg Isolation, means run.Means) *isolation {
	t.Helper()
	i, err := openIsolation(cfg, means, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestIsolationOfAMachine checks, for different machines, which isolation is used and how it is described.
func TestIsolationOfAMachine(t *testing.T) {
	notRoot := run.Means{NoUsers: "the agent is not root", NoSandbox: "the agent is not root"}
	inContainer := run.Means{Users: true, NoSandbox: "unshare: operation not permitted", Limited: []string{"memory"}, CgroupVersion: 1}
	closed := whole()
	closed.NoDevices = "the test says so"
	for _, c := range []struct {
		name, mode string
		means      run.Means
		says, lack string // "" if nothing is lacking
		fails      string
	}{
		{
			"root", IsolateAuto, whole(),
			"a user for each tenant; own /tmp, processes and devices; limits of cpu, memory, pids (cgroup v2)", "", "",
		},
		{
			"not root", IsolateAuto, notRoot, "none, the agent is not root: jobs run as the agent's user; no limits (no cgroup controllers)",
			"users of their own (the agent is not root), mounts of their own (the agent is not root), a cgroup controller for cpu, a cgroup controller for memory, a cgroup controller for pids", "",
		},
		{
			"no filter of devices", IsolateAuto, closed,
			"a user for each tenant; own /tmp, processes and devices; no filter of devices (the test says so); limits of", "a filter of devices (the test says so)", "",
		},
		{"not root, and asked for", IsolateTenant, notRoot, "", "", "isolation.mode tenant: the agent is not root"},
		{
			"none", IsolateNone, whole(), "none: jobs run as the agent's user; limits of cpu, memory, pids (cgroup v2)", "users of their own", "",
		},
		// The directory from t.TempDir is inside a directory that other users cannot enter.
		{
			"container, closed directory", IsolateAuto, inContainer, "none, other users cannot pass",
			"users of their own (other users cannot pass", "",
		},
		{"container, asked for", IsolateTenant, inContainer, "", "", "choose another --data-dir"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultIsolation()
			cfg.Mode = c.mode
			i, err := openIsolation(cfg, c.means, t.TempDir())
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := i.describe(); !strings.HasPrefix(got, c.says) {
				t.Errorf("says %q, want %q", got, c.says)
			}
			if got := i.refusalReason(); got != "" {
				t.Errorf("refuses though nothing is required: %q", got)
			}
			i.Require = true
			got := i.refusalReason()
			if (got == "") != (c.lack == "") || !strings.HasPrefix(got, "isolation.require: jobs here lack "+c.lack) && c.lack != "" {
				t.Errorf("refuses %q, want %q", got, c.lack)
			}
		})
	}
}

// TestIsolationWithoutMounts uses a machine that cannot give jobs their own mounts. The agent's directory is
// inside a directory that other users can enter. Tenants must still get separate users, and the permissions of
// the agent's directory must become 0711.
func TestIsolationWithoutMounts(t *testing.T) {
	top, err := os.MkdirTemp("", "ares-pass-*") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	dir := filepath.Join(top, "agent")
	if err = os.Chmod(top, 0o711); err != nil { //nolint:gosec // the point
		t.Fatal(err)
	}
	if err = os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	means := whole()
	means.Sandbox, means.NoSandbox = false, "the test says so"
	i, err := openIsolation(DefaultIsolation(), means, dir)
	if err != nil {
		t.Fatal(err)
	}
	if i.mode != IsolateTenant || !strings.Contains(i.describe(), "no mounts of their own (the test says so)") {
		t.Error(i.describe())
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o711 {
		t.Errorf("%v %v", st.Mode(), err)
	}
}

// TestUsersOfTenants checks that every tenant gets one user. The user's UID must be the same on each node and within the configured range.
// No two tenants may have the same user.
func TestUsersOfTenants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`), 1, 20, rapid.ID[string]).Draw(rt, "tenants")
		cfg := DefaultIsolation()
		cfg.UIDRange = rapid.IntRange(1, 1000).Draw(rt, "range") // narrow, to cause collisions
		here, there := mustOpen(t, cfg, whole()), mustOpen(t, cfg, whole())
		byUID := map[uint32]string{}
		for _, name := range names {
			u, err := here.of(name)
			if err != nil {
				if !strings.Contains(err.Error(), "would get the same UID") {
					rt.Fatal(err)
				}
				continue
			}
			if who, taken := byUID[u.UID]; taken {
				rt.Fatalf("%s and %s are both %d", who, name, u.UID)
			}
			byUID[u.UID] = name
			if int(u.UID) < cfg.UIDBase || int(u.UID) >= cfg.UIDBase+cfg.UIDRange || u.GID != u.UID {
				rt.Fatalf("%s is %+v", name, u)
			}
			if again, err := here.of(name); err != nil || again.UID != u.UID {
				rt.Fatalf("%s is %+v and then %+v, %v", name, u, again, err)
			}
			if other, err := there.of(name); err != nil || other.UID != u.UID {
				rt.Fatalf("%s is %+v here and %+v there, %v", name, u, other, err)
			}
		}
		// After a restart, tenants keep the users that they had.
		later, err := openIsolation(cfg, whole(), filepath.Dir(here.path))
		if err != nil {
			rt.Fatal(err)
		}
		for _, name := range slices.Backward(names) {
			if u, err := later.of(name); err == nil && byUID[u.UID] != name {
				rt.Fatalf("after a restart %s is %d, which was %s", name, u.UID, byUID[u.UID])
			}
		}
	})
}

func TestTwoTenantsOfOneUser(t *testing.T) {
	cfg := DefaultIsolation()
	cfg.UIDRange = 1
	i := mustOpen(t, cfg, whole())
	if _, err := i.of("one"); err != nil {
		t.Fatal(err)
	}
	if u, err := i.of("two"); err == nil || !strings.Contains(err.Error(), "tenants one and two would get the same UID") {
		t.Errorf("%+v is the other's user: %v", u, err)
	}
	i.Tenants, i.named = nil, map[string]*run.User{"two": {UID: 5, GID: 5}}
	if u, err := i.of("two"); err != nil || u.UID != 5 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestNamedUsers(t *testing.T) {
	cfg := DefaultIsolation()
	cfg.Tenants = map[string]string{"research": "nobody", "prod": "4001:4002"}
	cfg.Groups = []string{"44"}
	i := mustOpen(t, cfg, whole())
	for tenant, want := range map[string][2]uint32{"research": {65534, 65534}, "prod": {4001, 4002}} {
		u, err := i.of(tenant)
		if err != nil || u.UID != want[0] || u.GID != want[1] || !slices.Equal(u.Groups, []uint32{44}) {
			t.Errorf("%s: %+v, %v", tenant, u, err)
		}
	}
	if i.login("research") != "nobody" || i.login("prod") != "prod" || i.login("x") != "x" {
		t.Error(i.login("research"), i.login("prod"), i.login("x"))
	}
	made, err := i.of("default")
	if err != nil {
		t.Fatal(err)
	}
	// The UID derived from a tenant's name may be one that the configuration assigns to another tenant.
	cfg.Tenants["other"] = fmt.Sprintf("%d:%d", made.UID, made.GID)
	if u, err := mustOpen(t, cfg, whole()).of("default"); err == nil {
		t.Errorf("another's user: %+v", u)
	}
	i = mustOpen(t, DefaultIsolation(), whole())
	i.exists = func(string) bool { return true }
	if u, err := i.of("default"); err == nil || !strings.Contains(err.Error(), "already belongs to a user of this machine") {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []func(*Isolation){
		func(c *Isolation) { c.Mode, c.User = IsolateUser, "root" },
		func(c *Isolation) { c.Mode, c.User = IsolateUser, "no-such-user" },
		func(c *Isolation) { c.Mode, c.User = IsolateUser, "5" },
		func(c *Isolation) { c.Mode, c.User = IsolateUser, "5:0" },
		func(c *Isolation) { c.Tenants = map[string]string{"a": "0:0"} },
		func(c *Isolation) { c.Groups = []string{"no-such-group"} },
		func(c *Isolation) { c.Groups = []string{"0"} },
	} {
		cfg := DefaultIsolation()
		bad(&cfg)
		if i, err := openIsolation(cfg, whole(), t.TempDir()); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%+v: %+v, %v", cfg, i, err)
		}
	}
}

func TestIsolationChecks(t *testing.T) {
	for _, c := range []struct {
		spoil func(*Isolation)
		want  string
	}{
		{func(*Isolation) {}, ""},
		{func(i *Isolation) { i.Mode = "all" }, "isolation.mode"},
		{func(i *Isolation) { i.Mode = IsolateUser }, "isolation.user"},
		{func(i *Isolation) { i.User = "nobody" }, "isolation.user"},
		{func(i *Isolation) { i.UIDBase = 0 }, "isolation.uid_base"},
		{func(i *Isolation) { i.UIDRange = 0 }, "isolation.uid_base"},
		{func(i *Isolation) { i.UIDBase = 1<<31 - 5 }, "isolation.uid_base"},
		{func(i *Isolation) { i.Pids = -1 }, "isolation.pids"},
		{func(i *Isolation) { i.ShmMB = -2 }, "isolation.shm_mb"},
		{func(i *Isolation) { i.TmpMB = -1 }, "isolation.tmp_mb"},
		{func(i *Isolation) { i.WorkMB = -1 }, "isolation.work_mb"},
		{func(i *Isolation) { i.TmpMB, i.PrivateTmp = 5, false }, "isolation.tmp_mb"},
		{func(i *Isolation) { i.DiskMB = 16 }, ""},
		{func(i *Isolation) { i.DiskMB = 15 }, "isolation.disk_mb"},
		{func(i *Isolation) { i.DiskMB = -1 }, "isolation.disk_mb"},
		{func(i *Isolation) { i.DiskMB = 65 << 20 }, "isolation.disk_mb"},
		{func(i *Isolation) { i.DiskMB, i.PrivateTmp = 16, false }, "isolation.disk_mb"},
		{func(i *Isolation) { i.Mode, i.UserRange = IsolateJob, "200000-265535" }, ""},
		{func(i *Isolation) { i.UserRange = "200000-265535" }, "isolation.user_range"},
		{func(i *Isolation) { i.Mode, i.UserRange = IsolateJob, "1000-2000" }, "isolation.user_range"},
		{func(i *Isolation) { i.Mode, i.UserRange = IsolateJob, "0-4294967295" }, "isolation.user_range"},
		{func(i *Isolation) { i.Mode, i.UserRange = IsolateJob, "200000" }, "isolation.user_range"},
		{func(i *Isolation) { i.Mode, i.UserRange = IsolateJob, "200001-200000" }, "isolation.user_range"},
		{func(i *Isolation) { i.Mode, i.UserRange = IsolateJob, "200000-2147483648" }, "isolation.user_range"},
	} {
		i := DefaultIsolation()
		c.spoil(&i)
		var p ares.Problems
		i.Check(&p)
		if err := p.Err(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", i, err, c.want)
		}
	}
}

func TestUIDMap(t *testing.T) {
	const all, rootless = "         0          0 4294967295\n", "         0       1000          1\n         1     100000      65536\n"
	for _, c := range []struct {
		uidMap string
		uid    uint32
		want   bool
	}{{all, 1879048192, true}, {rootless, 1879048192, false}, {rootless, 0, true}, {rootless, 65536, true}, {rootless, 65537, false}, {"", 0, false}} {
		if got := hasUID(c.uidMap, c.uid); got != c.want {
			t.Errorf("%d in %q: %v", c.uid, c.uidMap, got)
		}
	}
}

// TestHiddenDevices checks that a device file is found by the driver's minor number, not by the GPU's index.
func TestHiddenDevices(t *testing.T) {
	dir := t.TempDir()
	n := deviceNodes{dev: filepath.Join(dir, "dev"), proc: filepath.Join(dir, "gpus")}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if paths, ok := n.hidden(nil); !ok || len(paths) != 0 {
		t.Errorf("without GPUs: %v %v", paths, ok)
	}
	for _, name := range []string{"nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia10"} {
		write(filepath.Join(n.dev, name), "")
	}
	for bus, minor := range map[string]int{"0000:01:00.0": 2, "0000:02:00.0": 0, "0000:03:00.0": 1, "0000:04:00.0": 10} {
		write(filepath.Join(n.proc, bus, "information"),
			fmt.Sprintf("Model: \t\t NVIDIA H200\nIRQ:   \t\t 47\nGPU UUID: \t GPU-%s\nDevice Minor: \t %d\nGPU Excluded:\t No\n", bus[6:7], minor))
	}
	for _, c := range []struct {
		own, want []string
		ok        bool
	}{
		{[]string{"GPU-1"}, []string{"nvidia0", "nvidia1", "nvidia10"}, true},
		{[]string{"GPU-4", "GPU-2"}, []string{"nvidia1", "nvidia2"}, true},
		{nil, []string{"nvidia0", "nvidia1", "nvidia10", "nvidia2"}, true},
		{[]string{"GPU-9"}, nil, false},
	} {
		got, ok := n.hidden(c.own)
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if ok != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v %v, want %v %v", c.own, got, ok, c.want, c.ok)
		}
	}
}

// TestNoSecretReachesAJob checks that a job finds none of the secrets in the agent's environment and directory.
func TestNoSecretReachesAJob(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has other users")
	}
	const canary = "canary-7c1f"
	t.Setenv("ARES_TOKEN", canary)
	t.Setenv("AWS_SECRET_ACCESS_KEY", canary)
	t.Setenv("HOME", "/root/"+canary)
	d := newDoor(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHandsApart(t, d, dir, DefaultIsolation())
	if got := h.Node().Isolation; !strings.HasPrefix(got, "a user for each tenant; own /tmp, processes and devices; limits of cpu, memory, pids") {
		t.Fatal(got)
	}
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, `env; id -u; pwd; cat `+dir+`/key; cat /proc/*/environ | tr '\0' '\n'; ls -la $HOME; echo mine > $HOME/file && cat $HOME/file`))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	eventually(t, "the end of its directory", func() bool {
		left, err := os.ReadDir(filepath.Join(dir, "work"))
		return err == nil && len(left) == 1 && left[0].Name() == trashDir && isEmpty(t, dir)
	})
	log, err := h.runner.OpenLog(run.Key{Job: "job-x", Fence: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	buf := make([]byte, 64<<10)
	n, _ := log.Next(t.Context(), buf, false)
	said := string(buf[:n])
	if strings.Contains(said, canary) {
		t.Errorf("a secret in\n%s", said)
	}
	u, err := h.isolation.of(ares.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf("\n%d\n/run/ares/work\n", u.UID), "HOME=/run/ares/work\n", "TMPDIR=/tmp\n", "\nmine\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
}

// TestRequiredIsolation checks that an agent accepts no jobs if isolation is required but the machine cannot provide it.
func TestRequiredIsolation(t *testing.T) {
	d := newDoor(t)
	cfg := DefaultIsolation()
	cfg.Mode, cfg.Require = IsolateNone, true
	h := newHandsApart(t, d, t.TempDir(), cfg)
	if got := h.Node().Unfit; !strings.HasPrefix(got, "isolation.require: jobs here lack users of their own") {
		t.Errorf("unfit %q", got)
	}
	d.order(seatOf(100, ares.SeatPlaced, time.Hour, "true"))
	eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
	if got := d.said("finish"); len(got) != 1 || got[0].outcome != string(ares.OutcomeLost) {
		t.Errorf("the agent asked %+v", got)
	}
	if h.spawned() {
		t.Error("spawned all the same")
	}
	a, err := New(t.Context(), Config{
		Node: "n", Servers: []string{d.addr}, Token: "t", Dir: t.TempDir(), Mock: "v100-4", Log: slog.New(slog.DiscardHandler),
		Isolation: Isolation{Mode: "everything"},
	})
	if err == nil {
		t.Errorf("started with %+v", a.cfg.Isolation)
	}
}
