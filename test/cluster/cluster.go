package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/live"
)

// Patience is the maximum time for which the harness waits for a process. The value is
// large enough for a busy machine.
const Patience = 90 * time.Second

// Cluster holds the etcd members, servers and agents of one test. All processes
// of a cluster are killed when the test ends.
type Cluster struct {
	Dir     string // holds data, configuration and logs
	Ares    string // the binary
	Etcd    []*Member
	Servers []*Server
	Agents  []*Process

	// CertFile and KeyFile are the paths of the servers' certificate and key, if
	// the option Certificate is set.
	CertFile, KeyFile string

	t         testing.TB
	options   options
	processes []*Process
}

type options struct {
	etcd, servers, agents int
	etcdFlags             []string
	config                string
	env                   []string
	tls, certificate      bool
	binary                string
}

// Option changes which processes are started by Start, and how they are
// started.
type Option func(*options)

// Etcd adds an external store of n members, and starts each member with the
// given etcd flags. Without the option Etcd, each server embeds its own store.
func Etcd(n int, flags ...string) Option {
	return func(o *options) { o.etcd, o.etcdFlags = n, flags }
}

// Servers starts n servers with the names server-1, server-2 and so on.
func Servers(n int) Option { return func(o *options) { o.servers = n } }

// Agents starts n real agents with four simulated GPUs each, and waits until
// they are online. The agents' nodes are named node-1, node-2 and so on.
func Agents(n int) Option { return func(o *options) { o.agents = n } }

// Config adds lines to the configuration of every server.
func Config(yaml string) Option { return func(o *options) { o.config += yaml } }

// Env adds variables to the environment of every server and agent.
func Env(vars ...string) Option { return func(o *options) { o.env = append(o.env, vars...) } }

// TLS makes servers accept gRPC connections also on addresses other than loopback. The
// servers use certificates from their own certificate authority.
func TLS() Option { return func(o *options) { o.tls = true } }

// Certificate makes servers present the test's certificate over REST and gRPC.
func Certificate() Option { return func(o *options) { o.certificate = true } }

// Binary sets the path of the program to start. The default is the binary that `make build`
// creates.
func Binary(path string) Option { return func(o *options) { o.binary = path } }

// Start starts a cluster. It returns when the servers are ready and the agents are online.
// Without options the cluster is empty, and the test adds processes to it.
func Start(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Dir: t.TempDir()}
	for _, o := range opts {
		o(&c.options)
	}
	if c.Ares = c.options.binary; c.Ares == "" {
		c.Ares = live.Ares.Path(t)
	}
	t.Cleanup(c.end)
	if c.options.certificate {
		c.CertFile, c.KeyFile = filepath.Join(c.Dir, "tls.crt"), filepath.Join(c.Dir, "tls.key")
		WriteCertificate(t, c.CertFile, c.KeyFile, time.Hour, "127.0.0.1")
	}
	if c.options.etcd > 0 {
		c.startEtcd()
	}
	for i := range c.options.servers {
		c.StartServer(fmt.Sprintf("server-%d", i+1))
	}
	var nodes []string
	for i := range c.options.agents {
		nodes = append(nodes, fmt.Sprintf("node-%d", i+1))
		c.StartAgent(nodes[i])
	}
	if len(nodes) > 0 {
		c.AwaitOnline(nodes...)
	}
	return c
}

// Run starts another program in the cluster's directory.
func (c *Cluster) Run(name string, env []string, argv ...string) *Process {
	c.t.Helper()
	p := NewProcess(c.t, c.Dir, Command{Name: name, Argv: argv, Env: env})
	c.processes = append(c.processes, p)
	return p
}

// Path returns the path of a file in the cluster's directory.
func (c *Cluster) Path(name string) string { return filepath.Join(c.Dir, name) }

// This method prints the logs if the test failed. It kills every process of the cluster,
// and checks that no process is left.
func (c *Cluster) end() {
	for _, p := range c.processes {
		for _, bad := range []string{"\npanic: ", "\nfatal error: ", "\nWARNING: DATA RACE"} { // only at the start of a line
			if _, after, found := strings.Cut("\n"+p.Log(), bad); found {
				c.t.Errorf("%s says %q:\n%s", p.Name, bad[1:], after[:min(len(after), 6_000)])
			}
		}
	}
	for _, p := range c.processes {
		p.End()
		if c.t.Failed() {
			c.t.Logf("=== log of %s (end)\n%s", p.Name, tail(p.Log(), 12_000))
		}
	}
	live.Await(c.t, 20*time.Second, "end of every process of the test", func() (bool, string) {
		left := c.Members()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
		return len(left) == 0, fmt.Sprint(left)
	})
	c.removeCgroups()
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// Members returns the pids of the cluster's processes. See ProcessesOf.
func (c *Cluster) Members() []int { return slices.Sorted(maps.Keys(ProcessesOf(c.Dir))) }

// ProcessesOf finds all processes whose command line or environment contains the given
// directory. These are, for example, agents, supervisors, jobs and orphans. ProcessesOf
// returns a map from the pid of each process to its command line.
func ProcessesOf(dir string) map[int]string {
	if len(dir) < 2 || !filepath.IsAbs(dir) {
		panic("too many processes carry " + strconv.Quote(dir)) // a caller may kill all of them
	}
	out := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(file))
		if err != nil || pid == os.Getpid() || !Alive(pid) {
			continue
		}
		line, _ := os.ReadFile(file + "/cmdline") // an error means that the process has ended
		env, _ := os.ReadFile(file + "/environ")
		if bytes.Contains(line, []byte(dir+"/")) || bytes.Contains(env, []byte(dir+"/")) {
			out[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// Alive reports whether a pid belongs to a running process. A zombie does not
// count.
func Alive(pid int) bool {
	s := State(pid)
	return s != "" && s != "Z" && s != "X"
}

// removeCgroups removes the empty cgroups that killed agents left behind.
func (c *Cluster) removeCgroups() {
	ids, _ := filepath.Glob(filepath.Join(c.Dir, "*", "agent", "seats", "id"))
	for _, file := range ids {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == strings.TrimSpace(string(data)) {
				removeTree(path)
				return fs.SkipDir
			}
			return nil
		})
	}
}

func removeTree(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir) // a cgroup is removed by rmdir once it is empty
}
