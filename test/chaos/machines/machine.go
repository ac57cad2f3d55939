package machines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/test/cluster"
)

// A Machine is one simulated host: a network namespace and a small disk. The tests themselves run on the router between
// all machines.
type Machine struct {
	Name   string
	IP     string
	Router string // the router's address on the link to this machine
	Disk   string

	t     testing.TB
	wire  string // name of the router's end of the link
	mu    sync.Mutex
	fills int
}

// diskSize is small enough to be filled quickly.
const diskSize = 512 << 20

// New creates a simulated machine. Each machine needs a different number from 1 to 254.
func New(t testing.TB, dir, name string, number int) *Machine {
	t.Helper()
	m := &Machine{
		t: t, Name: name, Disk: filepath.Join(dir, name), wire: fmt.Sprintf("w%d", number),
		IP: fmt.Sprintf("10.77.%d.2", number), Router: fmt.Sprintf("10.77.%d.1", number),
	}
	if err := os.MkdirAll(m.Disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", m.Disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskSize)); err != nil {
		t.Fatalf("mount the disk of %s: %v", name, err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(m.Disk, syscall.MNT_DETACH) }) // at the latest, it is removed with the namespace
	network(t, "netns add "+name,
		"link add "+m.wire+" type veth peer name e0 netns "+name,
		"addr add "+m.Router+"/24 dev "+m.wire,
		"link set "+m.wire+" up",
		"-n "+name+" addr add "+m.IP+"/24 dev e0",
		"-n "+name+" link set e0 up",
		"-n "+name+" link set lo up",
		"-n "+name+" route add default via "+m.Router)
	return m
}

// Start runs a program on the machine. When the program ends, it is
// restarted, as a service manager would do. This goes on until a fault stops
// the program.
func (m *Machine) Start(logs, name string, env []string, argv ...string) *cluster.Process {
	m.t.Helper()
	return cluster.NewProcess(m.t, logs, cluster.Command{
		Name: name, Argv: m.inside(argv), Env: env, Dir: m.Disk, Supervised: true,
	})
}

// The method `inside` returns the command line that runs a program in the machine's network.
func (m *Machine) inside(argv []string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + m.Name}, argv...)
}

// StartRouter makes the tests' namespace forward packets between machines.
func StartRouter(t testing.TB) {
	t.Helper()
	network(t, "link set lo up")
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Cut silently drops every packet from one machine to another until
// the returned function is called.
func Cut(t testing.TB, from, to *Machine) func() {
	rule := fmt.Sprintf("from %s to %s blackhole", from.IP, to.IP)
	network(t, "rule add "+rule)
	return func() { network(t, "rule del "+rule) }
}

// Unplug takes down a machine's network link. The returned function is Plug.
func (m *Machine) Unplug() func() {
	network(m.t, "link set "+m.wire+" down")
	return m.Plug
}

// Plug takes up a machine's network link.
func (m *Machine) Plug() { network(m.t, "link set "+m.wire+" up") }

// Fill fills a machine's disk completely.
func (m *Machine) Fill() func() {
	m.mu.Lock()
	m.fills++
	path := filepath.Join(m.Disk, fmt.Sprintf("fill-%d", m.fills))
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

// Pids returns all processes of a machine, found by its network namespace.
func (m *Machine) Pids() []int {
	own, err := os.Stat("/run/netns/" + m.Name)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		info, err := os.Stat(filepath.Join("/proc", e.Name(), "ns/net"))
		if err == nil && os.SameFile(own, info) {
			out = append(out, pid)
		}
	}
	return out
}
