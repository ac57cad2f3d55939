package agent

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/loopback"
)

// Config is the configuration of an agent.
type Config struct {
	// Node is this machine's name in the cluster. The default is the host name.
	Node string
	// Servers lists the gRPC addresses of the servers. When one server does not answer, the agent
	// tries the next one.
	Servers []string
	// Token authenticates this node at a server. Without a Token the node uses its own certificate.
	Token string
	// Join is a join token. A node without a valid certificate exchanges this token for a certificate.
	Join string
	// TLS defines how servers are verified. If TLS is nil and a Token is set, the agent connects in plaintext, which is allowed only on
	// loopback. If TLS is nil and no Token is set, the agent trusts the certificate authority of the cluster that the node has joined.
	TLS *tls.Config
	// Dir is the directory where the agent stores its identity and the state of its seats between restarts.
	Dir string
	// Address is the address at which ranks on other nodes reach this one. The default is 127.0.0.1.
	Address string
	// Labels are the node's labels for placement, such as region, zone and rack.
	Labels map[string]string
	// Taints keep jobs off this node unless the jobs tolerate the taints.
	Taints []ares.Taint
	// Mock is the name of a profile, which describes the devices to simulate. If Mock is empty, the agent
	// detects the real devices. The value "off" forbids simulated devices.
	Mock string
	// Images configures jobs that run in an image.
	Images Images
	// Isolation configures how jobs are isolated from the machine and from each other. The zero value of Isolation
	// means the default isolation.
	Isolation Isolation
	// Watch is called at each step of a rank on this node, by one goroutine. The agent does not wait for it, and leaves out steps if
	// it is too slow. Watch may be nil.
	Watch   func(Change)
	Version string
	Log     *slog.Logger
}

// Check reports every mistake in a configuration.
func (c *Config) Check() error {
	var p ares.Problems
	if !ares.ValidName(c.Node) {
		p.Add("node", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_'", c.Node)
	}
	if len(c.Servers) == 0 {
		p.Add("server", "give at least one server address, such as 127.0.0.1:9090")
	}
	for _, addr := range c.Servers {
		if c.Token != "" && c.TLS == nil && !loopback.Addr(addr) {
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
	c.Images.Check(&p)
	return p.Err()
}

// The function `instance` reads the agent's nonce, or creates it at the first start. The nonce stays the same across restarts. A
// restarted agent can therefore take over its own session, and a second agent is rejected.
func instance(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	data, err := os.ReadFile(path)
	// Only a valid ID is accepted, because a damaged file would otherwise keep this node out of the cluster
	// permanently.
	if id := strings.TrimSpace(string(data)); err == nil && len(id) >= 16 && ares.ValidName(id) {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the agent's identity: %w", err)
	}
	id := rand.Text()
	if err := writeAtomically(path, id+"\n"); err != nil {
		return "", fmt.Errorf("write the agent's identity: %w", err)
	}
	return id, nil
}

// firstSession is the first session that was opened with this agent's identity. Another agent of the node, with another state
// directory, may have left processes running. If another agent left processes on this node, their fencing tokens are not greater than
// this session's revision. The last renewal of these processes was sent before this session was opened.
type firstSession struct {
	revision int64
	at       run.BootTime
}

func firstSessionPath(dir string) string { return filepath.Join(dir, "arrival") }

// readFirstSession reads the first session that an earlier run stored. If no session is stored, readFirstSession returns nil. If
// the machine was rebooted in the meantime, readFirstSession returns an empty session, because no old process survives a reboot.
func readFirstSession(dir string) *firstSession {
	data, err := os.ReadFile(firstSessionPath(dir))
	if err != nil {
		return nil
	}
	var a firstSession
	var boot string
	// If the newline at the end of the file is missing, the last number may be cut off. A number that is cut off would
	// be read as an earlier time.
	if _, err := fmt.Sscan(string(data), &boot, &a.revision, &a.at); err != nil || !strings.HasSuffix(string(data), "\n") {
		return nil // incomplete, so treat it as if the agent had never run here
	}
	if boot != bootID() {
		return &firstSession{}
	}
	return &a
}

func (a *firstSession) write(dir string) error {
	return writeAtomically(firstSessionPath(dir), fmt.Sprintln(bootID(), a.revision, int64(a.at)))
}

// bootID identifies this boot of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(data))
}

// writeAtomically writes a file either completely or not at all.
func writeAtomically(path, content string) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
