package agent

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// Config of an agent.
type Config struct {
	// Node is this machine's name in the fleet. Default: the host name.
	Node string
	// Servers are gRPC addresses; the next one is tried when one is silent.
	Servers []string
	// Token proves to a server that this is a node of the fleet. Without one the
	// node proves itself by a certificate of its own.
	Token string
	// Join is the join token by which a node without a good certificate gets one.
	Join string
	// TLS says which servers to trust. Nil for plaintext with a Token (loopback
	// only), and else for those of the authority that the node has joined.
	TLS *tls.Config
	// Dir keeps the agent's identity and its seats between restarts.
	Dir string
	// Address is where ranks on other nodes reach this one. Default 127.0.0.1.
	Address string
	// Labels for placement, such as region, zone and rack.
	Labels map[string]string
	// Taints keep jobs off this node that do not tolerate them.
	Taints []ares.Taint
	// Mock is a profile of simulated devices; "" finds the real ones, "off"
	// forbids mock devices.
	Mock string
	// RunImages lets a job that names an image run its command directly on the
	// host. Without it such a job is refused.
	RunImages bool
	// Isolation sets jobs apart from the machine and each other. The zero value is
	// the default.
	Isolation Isolation
	Version   string
	Log       *slog.Logger
}

// Check reports every mistake of a configuration.
func (c *Config) Check() error {
	var p ares.Problems
	if !ares.ValidName(c.Node) {
		p.Add("node", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_'", c.Node)
	}
	if len(c.Servers) == 0 {
		p.Add("server", "give at least one server address, such as 127.0.0.1:9090")
	}
	for _, addr := range c.Servers {
		if c.Token != "" && c.TLS == nil && !isLoopback(addr) {
			p.Add("server", "%s is not a loopback address: a token must not travel in the clear, so give --tls or --tls-ca", addr)
		}
	}
	if c.Dir == "" {
		p.Add("data-dir", "a directory is needed for the agent's state")
	}
	if c.Isolation.Mode == "" {
		c.Isolation = DefaultIsolation()
	}
	c.Isolation.Check(&p)
	return p.Err()
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// instance reads the agent's nonce, or makes it at the first start. It stays
// the same across restarts, so that a restarted agent takes its own session
// over while a second agent is refused.
func instance(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	data, err := os.ReadFile(path)
	// Only what a server takes: a damaged file would keep this node out for good.
	if id := strings.TrimSpace(string(data)); err == nil && len(id) >= 16 && ares.ValidName(id) {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the agent's identity: %w", err)
	}
	id := rand.Text()
	if err := replace(path, id+"\n"); err != nil {
		return "", fmt.Errorf("write the agent's identity: %w", err)
	}
	return id, nil
}

// arrival is when this identity had its first session. Another agent of the
// node, with another state directory, may have left processes behind: those
// have fences up to the session's revision, and were last renewed before it.
type arrival struct {
	revision int64
	at       run.BootTime
}

func arrivalPath(dir string) string { return filepath.Join(dir, "arrival") }

// readArrival finds the arrival of an earlier run, nil when there was none.
// After a reboot nothing is left of anybody, so nothing has to be waited for.
func readArrival(dir string) *arrival {
	data, err := os.ReadFile(arrivalPath(dir))
	if err != nil {
		return nil
	}
	var a arrival
	var boot string
	// Without its line's end a number may be cut short, and be read as an earlier time.
	if _, err := fmt.Sscan(string(data), &boot, &a.revision, &a.at); err != nil || !strings.HasSuffix(string(data), "\n") {
		return nil // torn: as if it had never been here
	}
	if boot != bootID() {
		return &arrival{}
	}
	return &a
}

func (a *arrival) write(dir string) error {
	return replace(arrivalPath(dir), fmt.Sprintln(bootID(), a.revision, int64(a.at)))
}

// bootID names this run of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}

// replace writes a file so that it is there whole or not at all.
func replace(path, content string) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
