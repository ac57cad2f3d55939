package robustness_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/test/cluster"
)

// A `machine` is one simulated host of the cluster: a network namespace and a
// small disk. The tests themselves run on the router between all machines.
type machine struct {
	t     testing.TB
	name  string
	ip    string
	hub   string // the router's address on the link to this machine
	disk  string
	wire  string // name of the router's end of the link
	mu    sync.Mutex
	fills int
}

// diskSize is small enough to be filled quickly.
const diskSize = 512 << 20

// newMachine creates a simulated machine. Each machine needs a different
// number.
func newMachine(t testing.TB, dir, name string, number int) *machine {
	t.Helper()
	m := &machine{
		t: t, name: name, disk: filepath.Join(dir, name), wire: fmt.Sprintf("w%d", number),
		ip: fmt.Sprintf("10.77.%d.2", number), hub: fmt.Sprintf("10.77.%d.1", number),
	}
	if err := os.MkdirAll(m.disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", m.disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskSize)); err != nil {
		t.Fatalf("mount the disk of %s: %v", name, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(m.disk, syscall.MNT_DETACH) }) // at the latest, it is removed with the namespace
	network(t, "netns add "+name,
		"link add "+m.wire+" type veth peer name e0 netns "+name,
		"addr add "+m.hub+"/24 dev "+m.wire,
		"link set "+m.wire+" up",
		"-n "+name+" addr add "+m.ip+"/24 dev e0",
		"-n "+name+" link set e0 up",
		"-n "+name+" link set lo up",
		"-n "+name+" route add default via "+m.hub)
	return m
}

// This method runs a program on the machine. When the program ends, it is
// restarted, as a service manager would do. This goes on until a fault stops
// the program.
func (m *machine) start(logs, name string, env []string, argv ...string) *cluster.Process {
	m.t.Helper()
	return cluster.NewProcess(m.t, logs, cluster.Command{
		Name: name, Argv: append([]string{"nsenter", "--net=/run/netns/" + m.name}, argv...), Env: env, Dir: m.disk, Supervised: true,
	})
}

// startRouter makes the tests' namespace forward packets between machines.
func startRouter(t testing.TB) {
	t.Helper()
	network(t, "link set lo up")
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// This function silently drops every packet from one machine to another until
// the returned function is called.
func cut(t testing.TB, from, to *machine) func() {
	rule := fmt.Sprintf("from %s to %s blackhole", from.ip, to.ip)
	network(t, "rule add "+rule)
	return func() { network(t, "rule del "+rule) }
}

// `unplug` takes down a machine's network link.
func (m *machine) unplug() func() {
	network(m.t, "link set "+m.wire+" down")
	return func() { network(m.t, "link set "+m.wire+" up") }
}

// `fill` fills a machine's disk completely.
func (m *machine) fill() func() {
	m.mu.Lock()
	m.fills++
	path := filepath.Join(m.disk, fmt.Sprintf("fill-%d", m.fills))
	m.mu.Unlock()
	f, err := os.Create(path)
	if err != nil {
		return func() {} // it is full already
	}
	block := make([]byte, 1<<20)
	for size := len(block); size >= 512; {
		if _, err := f.Write(block[:size]); err != nil {
			size /= 2
		}
	}
	_ = f.Close()
	return func() { _ = os.Remove(path) }
}

// This function runs commands of ip(8).
func network(t testing.TB, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			t.Errorf("ip %s: %v: %s", c, err, out)
		}
	}
}
