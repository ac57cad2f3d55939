package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
	"github.com/ares-scheduler/ares/agent/run"
)

// TestSandboxOfAJob checks which settings and which properties of a job decide its sandbox.
func TestSandboxOfAJob(t *testing.T) {
	half := int64(machineMB() / 2)
	for _, c := range []struct {
		name  string
		spoil func(*Isolation, *run.Means)
		job   ares.Spec
		ranks int
		want  run.Sandbox
	}{
		{"default", nil, ares.Spec{}, 1, run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, ShmMB: half}},
		{"less memory", nil, ares.Spec{MemoryMB: 3}, 1, run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, ShmMB: 3}},
		{
			"working directory in /tmp", nil, ares.Spec{WorkingDir: "/tmp/x", MemoryMB: 3}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, ShmMB: 3},
		},
		{
			"checkpoint in /tmp", nil, ares.Spec{Checkpoint: ares.Checkpoint{Path: "/tmp/x"}, MemoryMB: 3}, 1,
			run.Sandbox{Private: true, Seccomp: true, ShmMB: 3},
		},
		{
			"checkpoint in a limited /tmp", func(i *Isolation, _ *run.Means) { i.TmpMB = 9 },
			ares.Spec{Checkpoint: ares.Checkpoint{Path: "/tmp/x"}, MemoryMB: 3}, 1,
			run.Sandbox{Private: true, OwnTmp: true, TmpMB: 9, Seccomp: true, ShmMB: 3},
		},
		{
			"a gang", func(i *Isolation, _ *run.Means) { i.ShmMB = 5 }, ares.Spec{MemoryMB: 3}, 2,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, ShmMB: 5, ShareShm: true},
		},
		{
			"the machine's memory", func(i *Isolation, _ *run.Means) { i.ShmMB = -1 }, ares.Spec{}, 2,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true},
		},
		{
			"a limited directory", func(i *Isolation, _ *run.Means) { i.ShmMB, i.WorkMB = -1, 7 }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, WorkMB: 7},
		},
		{
			"a limited disk", func(i *Isolation, _ *run.Means) { i.ShmMB, i.DiskMB = -1, 64 }, ares.Spec{Checkpoint: ares.Checkpoint{Path: "/tmp/x"}}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, DiskMB: 64},
		},
		{
			"a limited disk and /tmp in memory", func(i *Isolation, _ *run.Means) { i.ShmMB, i.DiskMB, i.TmpMB = -1, 64, 9 }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, DiskMB: 64, TmpMB: 9},
		},
		{
			"everything in memory", func(i *Isolation, _ *run.Means) { i.ShmMB, i.DiskMB, i.TmpMB, i.WorkMB = -1, 64, 9, 7 }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, TmpMB: 9, WorkMB: 7},
		},
		{
			"namespaces", func(i *Isolation, _ *run.Means) { i.ShmMB, i.UserNamespaces = -1, true }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, UserNamespaces: true},
		},
		{
			"no network", func(i *Isolation, _ *run.Means) { i.ShmMB = -1 }, ares.Spec{Constraints: &ares.Placement{Network: ares.NetworkNone}}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true, OwnNetwork: true},
		},
		{
			"no filter", func(i *Isolation, _ *run.Means) { i.ShmMB, i.Seccomp = -1, false }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true},
		},
		{
			"no filter of devices", func(i *Isolation, _ *run.Means) { i.ShmMB, i.DeviceFilter = -1, false }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true},
		},
		{
			"no filter of devices possible", func(i *Isolation, m *run.Means) { i.ShmMB, m.NoDevices = -1, "no" }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true, Seccomp: true},
		},
		{
			"no filter possible", func(i *Isolation, m *run.Means) { i.ShmMB, m.NoSeccomp = -1, "no" }, ares.Spec{}, 1,
			run.Sandbox{Private: true, OwnTmp: true},
		},
		{"no mounts possible", func(_ *Isolation, m *run.Means) { m.Sandbox = false }, ares.Spec{}, 1, run.Sandbox{Seccomp: true}},
	} {
		i := &isolation{Isolation: DefaultIsolation(), means: whole(), mode: IsolateTenant}
		if c.spoil != nil {
			c.spoil(&i.Isolation, &i.means)
		}
		c.want.Scoped = c.ranks == 1 // ranks of one job reach each other
		c.want.OwnUser = c.want.Private
		if !strings.HasPrefix(c.name, "no filter of devices") {
			c.want.FilterDevices, c.want.Devices = true, defaultDevices
		}
		hide := []string{"/dev/nvidia7"}
		c.want.Hide = hide // the device filter needs it too
		got := (&Agent{isolation: i}).sandbox(&c.job, c.ranks, "", hide)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestTrustedOnly checks that a node on which jobs run as the agent's user accepts only jobs of platform administrators, and says so.
func TestTrustedOnly(t *testing.T) {
	notRoot := run.Means{NoUsers: "the agent is not root", NoSandbox: "the agent is not root", NoSeccomp: "the agent is not root"}
	for _, c := range []struct {
		mode  string
		means run.Means
		allow bool
		want  bool
	}{
		{IsolateNone, whole(), false, true},
		{IsolateNone, whole(), true, false},
		{IsolateAuto, notRoot, false, true},
		{IsolateAuto, notRoot, true, false},
		{IsolateAuto, whole(), false, false},
		{IsolateTenant, whole(), false, false},
	} {
		cfg := DefaultIsolation()
		cfg.Mode, cfg.AllowUntrusted = c.mode, c.allow
		i := mustOpen(t, cfg, c.means)
		if got := i.trustedOnly(); got != c.want {
			t.Errorf("%s, allow %v: %v", c.mode, c.allow, got)
		}
		if said := strings.Contains(i.describe(), "only jobs of platform administrators"); said != c.want {
			t.Errorf("%s, allow %v: %s", c.mode, c.allow, i.describe())
		}
	}
	d := newDoor(t)
	cfg := DefaultIsolation()
	cfg.Mode = IsolateNone
	if !newHandsApart(t, d, t.TempDir(), cfg).Node().TrustedOnly {
		t.Error("the node's record does not say it")
	}
}

// TestNoFilterIsReported checks that the description and isolation.require mention a missing filter.
func TestNoFilterIsReported(t *testing.T) {
	means := whole()
	means.NoSeccomp = "the test says so"
	cfg := DefaultIsolation()
	cfg.Require = true
	i := mustOpen(t, cfg, means)
	if !strings.Contains(i.describe(), "; no filter of system calls (the test says so)") || !strings.Contains(i.refusalReason(), "a filter of system calls (the test says so)") {
		t.Errorf("%s\n%s", i.describe(), i.refusalReason())
	}
	i.Seccomp = false
	if strings.Contains(i.describe(), "filter") || i.refusalReason() != "" {
		t.Errorf("%s\n%s", i.describe(), i.refusalReason())
	}
}

// TestUserOfAJob checks that in mode job every job has its own user, the same on every node, and never the user of another job.
func TestUserOfAJob(t *testing.T) {
	cfg := DefaultIsolation()
	cfg.Mode, cfg.Tenants = IsolateJob, map[string]string{"prod": "4001:4001"}
	here, there := mustOpen(t, cfg, whole()), mustOpen(t, cfg, whole())
	seen := map[uint32]bool{}
	for _, id := range []ares.JobID{"job-a", "job-b", "job-c"} {
		a, err := here.ofJob("t", id)
		if err != nil {
			t.Fatal(err)
		}
		b, err := there.ofJob("u", id)
		if err != nil || a.UID != b.UID || a.GID != a.UID || seen[a.UID] || int(a.UID) < cfg.UIDBase || int(a.UID) >= cfg.UIDBase+cfg.UIDRange {
			t.Errorf("%s is %+v here and %+v there, %v", id, a, b, err)
		}
		seen[a.UID] = true
		if again, err := here.ofJob("t", id); err != nil || again.UID != a.UID {
			t.Errorf("%s is then %+v, %v", id, again, err)
		}
	}
	if u, err := here.ofJob("prod", "job-a"); err != nil || u.UID != 4001 {
		t.Errorf("%+v, %v", u, err)
	}
	if got := here.describe(); !strings.HasPrefix(got, "a user for each job; own /tmp") {
		t.Error(got)
	}
	cfg.UIDRange = 1
	one := mustOpen(t, cfg, whole())
	if _, err := one.ofJob("t", "job-a"); err != nil {
		t.Fatal(err)
	}
	if u, err := one.ofJob("t", "job-b"); err == nil || !strings.Contains(err.Error(), "would get the same UID") {
		t.Errorf("%+v is the other's user: %v", u, err)
	}
}

// TestNoJobGetsTheNetworkInstead lets the server order a job with the network none on a machine that cannot keep it from the network. An
// earlier version of the scheduler may have placed it there.
func TestNoJobGetsTheNetworkInstead(t *testing.T) {
	for _, network := range []string{ares.NetworkHost, ares.NetworkNone} {
		d := newDoor(t)
		cfg := DefaultIsolation()
		cfg.Mode, cfg.AllowUntrusted = IsolateNone, true
		h := newHandsApart(t, d, t.TempDir(), cfg)
		if h.Node().OwnNetwork {
			t.Error("the node says that it can")
		}
		ran := filepath.Join(h.dir, "ran")
		o := secretSeat(100, "touch "+ran)
		o.Spec.Network = network
		d.order(o)
		eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
		_, err := os.Stat(ran)
		got := d.said("finish")
		if lost := len(got) == 1 && got[0].outcome == string(ares.OutcomeLost); len(got) != 1 || lost != (network == ares.NetworkNone) || lost == (err == nil) {
			t.Errorf("network %s: ran %v, finished as %+v", network, err == nil, got)
		}
	}
}

// TestContainerRootIsLost lets a test container for container_root fail while the node runs. The servers are told, and a job that is placed
// there all the same does not start.
func TestContainerRootIsLost(t *testing.T) {
	d := newDoor(t)
	h := newHandsApart(t, d, t.TempDir(), DefaultIsolation())
	h.Agent.mu.Lock()
	h.node.ContainerRoot = true
	h.Agent.mu.Unlock()
	if h.images == nil { // otherwise the agent reads it
		h.images = &image.Store{}
	}
	h.loseContainerRoot("user.max_user_namespaces is 0")
	if n := h.Node(); n.ContainerRoot || !strings.Contains(n.NoContainerRoot, "max_user_namespaces") {
		t.Errorf("the node says %+v", n)
	}
	for _, root := range []bool{false, true} {
		o := secretSeat(100, "true")
		o.Spec.Image, o.Spec.ContainerRoot = "docker.io/library/x:1", root
		s := &seat{agent: h.Agent, key: run.Key{Job: o.Seat.JobId}, order: o}
		if _, err := s.imageRequest(); (err != nil) != root || root && !strings.Contains(err.Error(), "container_root") {
			t.Errorf("container_root %t: %v", root, err)
		}
	}
}

// TestAnUntrustedJobNeverStarts lets the server order a job of a user on a machine without isolation. The scheduler may have
// placed it there before the machine lost its isolation.
func TestAnUntrustedJobNeverStarts(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		d := newDoor(t)
		cfg := DefaultIsolation()
		cfg.Mode, cfg.AllowUntrusted = IsolateNone, allowed
		h := newHandsApart(t, d, t.TempDir(), cfg)
		ran := filepath.Join(h.dir, "ran")
		o := secretSeat(100, "touch "+ran)
		o.Trusted = false
		d.order(o)
		eventually(t, "its end", func() bool { return len(d.said("release")) > 0 })
		_, err := os.Stat(ran)
		if got := d.said("finish"); len(got) != 1 || allowed != (err == nil) || allowed == (got[0].outcome == string(ares.OutcomeLost)) {
			t.Errorf("allowed %v: ran %v, finished as %+v", allowed, err == nil, got)
		}
		if fetched := len(d.said("secrets")) > 0; fetched != allowed {
			t.Errorf("allowed %v: its secrets were fetched: %v", allowed, fetched)
		}
	}
}
