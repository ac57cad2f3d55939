package faults_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/live"
)

// The times of most tests: short, but with room for a busy machine.
const (
	ttl       = 5 // seconds, of a session
	lostAfter = 8 // seconds, of a job
	patience  = 90 * time.Second
)

var (
	program = live.Program
	poll    = live.Await
)

// world is one fleet of processes with its directory. All of it is gone when
// the test ends.
type world struct {
	t     *testing.T
	dir   string
	ares  string
	etcd  string // endpoints of the external store, with commas; "" when the server embeds one
	more  string // of every server's configuration
	tls   bool   // whether servers serve gRPC beyond the loopback, so with TLS
	procs []*proc
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), ares: program(t, "ARES_TEST_BIN", "../../bin/ares", "make build")}
	if err := os.Mkdir(w.trace(), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// end shows the logs of a failed test, kills everything that belongs to the
// world and checks that nothing is left.
func (w *world) end() {
	for _, p := range w.procs {
		for _, bad := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
			if p.says(bad) {
				w.t.Errorf("%s says %q:\n%s", p.name, bad, p.saidAround(bad))
			}
		}
	}
	for _, p := range w.procs {
		if w.t.Failed() {
			w.t.Logf("=== log of %s (end)\n%s", p.name, tail(p.log, 12_000))
		}
		p.kill()
	}
	if w.t.Failed() {
		names, _ := filepath.Glob(filepath.Join(w.trace(), "*.trace"))
		for _, name := range names[:min(len(names), 8)] {
			w.t.Logf("=== %s (end)\n%s", filepath.Base(name), tail(name, 1_000))
		}
	}
	poll(w.t, 20*time.Second, "end of every process of the test", func() (bool, string) {
		left := w.members()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone by now
		}
		return len(left) == 0, fmt.Sprint(left)
	})
	w.removeCgroups()
}

// members are the pids of all processes that carry the world's directory in
// their command line or environment: agents, supervisors, jobs and orphans.
func (w *world) members() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		w.t.Fatal(err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || !alive(pid) {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			data, _ := os.ReadFile(filepath.Join("/proc", e.Name(), file)) // gone: not a member
			if strings.Contains(string(data), w.dir+"/") {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

// removeCgroups drops the empty cgroups that killed agents left.
func (w *world) removeCgroups() {
	ids, _ := filepath.Glob(filepath.Join(w.dir, "*", "agent", "seats", "id"))
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

// proc is one process that the test starts, and may start again.
type proc struct {
	t    *testing.T
	name string
	log  string
	path string
	args []string
	env  []string

	cmd   *exec.Cmd
	ended chan struct{}
}

func (w *world) start(name, path string, env []string, args ...string) *proc {
	w.t.Helper()
	p := &proc{t: w.t, name: name, log: filepath.Join(w.dir, name+".log"), path: path, args: args, env: env}
	w.procs = append(w.procs, p)
	p.start()
	return p
}

// start runs the process anew; its log goes on.
func (p *proc) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = filepath.Dir(p.log)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.log)}, p.env...)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // how it ended is the test's doing
		close(ended)
	}(p.cmd, p.ended)
}

// kill is kill -9; it returns when the process is gone.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill() // gone already is as good
	<-p.ended
}

// freeze stops the process as a debugger or a hypervisor would.
func (p *proc) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	poll(p.t, patience, p.name+" to stand still", func() (bool, string) {
		s := procState(p.cmd.Process.Pid)
		return s == "T", s
	})
}

func (p *proc) thaw() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *proc) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s to %s: %v", sig, p.name, err)
	}
}

// says reports whether the process has logged a text.
func (p *proc) says(text string) bool {
	data, err := os.ReadFile(p.log)
	return err == nil && strings.Contains(string(data), text)
}

// saidAround is the part of the log that begins with a text.
func (p *proc) saidAround(text string) string {
	_, rest, _ := strings.Cut(tail(p.log, 1<<20), text)
	return rest[:min(len(rest), 6_000)]
}

// startEtcd gives the world an external store, with more flags of etcd.
func (w *world) startEtcd(more ...string) {
	w.t.Helper()
	client, peer := "http://"+live.FreeAddr(w.t), "http://"+live.FreeAddr(w.t)
	w.start("etcd", program(w.t, "ARES_TEST_ETCD", "../../.bin/etcd", "make tools"), nil, append(more,
		"--name", "faults", "--data-dir", filepath.Join(w.dir, "etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "faults="+peer,
		"--log-level", "error")...)
	w.etcd = client
}

// open gives a handle on the external store.
func (w *world) open() *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), store.Config{Endpoints: strings.Split(w.etcd, ","), Timeout: 20 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// host is an `ares server` process.
type host struct {
	*proc
	dir string
	at  server.Endpoints
}

// server starts `ares server` on ports of its own and waits until it is ready.
func (w *world) server(name string) *host {
	w.t.Helper()
	h := &host{dir: filepath.Join(w.dir, name)}
	h.at = server.Endpoints{HTTP: live.FreeAddr(w.t), GRPC: live.FreeAddr(w.t), Metrics: live.FreeAddr(w.t)}
	listen := h.at.GRPC
	if w.tls {
		listen = strings.Replace(listen, "127.0.0.1", "0.0.0.0", 1)
	}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	config := fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\n", h.dir, h.at.HTTP, listen, h.at.Metrics) +
		fmt.Sprintf("sessions: {ttl_seconds: %d, brake_percent: 100}\nscheduler: {leader_ttl_seconds: 2}\n", ttl)
	if w.etcd != "" {
		config += "etcd: {endpoints: [" + w.etcd + "]}\n"
	}
	if w.tls {
		config += "advertise_addr: " + h.at.GRPC + "\n"
	}
	config += w.more
	path := filepath.Join(h.dir, "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		w.t.Fatal(err)
	}
	h.proc = w.start(name, w.ares, nil, "server", "--config", path)
	h.ready()
	return h
}

// ready waits until the server answers 200 at /api/v1/ready, and checks that
// it tells its endpoints.
func (h *host) ready() {
	h.t.Helper()
	poll(h.t, patience, h.name+" to be ready", func() (bool, string) {
		select {
		case <-h.ended:
			h.t.Fatalf("%s ended", h.name)
		default:
		}
		status, err := h.get("/api/v1/ready")
		return status == http.StatusOK, fmt.Sprint(status, err)
	})
	var said server.Endpoints
	poll(h.t, patience, "server.json of "+h.name, func() (bool, string) {
		data, err := os.ReadFile(filepath.Join(h.dir, server.EndpointsFile))
		if err == nil {
			err = json.Unmarshal(data, &said)
		}
		port := h.at.GRPC[strings.LastIndex(h.at.GRPC, ":"):] // the host may be all of this machine's
		return err == nil && said.HTTP == h.at.HTTP && said.Metrics == h.at.Metrics && strings.HasSuffix(said.GRPC, port), fmt.Sprint(said, err)
	})
}

func (h *host) get(path string) (int, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.at.HTTP+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// id is the server's name in the store.
func (h *host) id() string {
	data, err := os.ReadFile(filepath.Join(h.dir, "server.id"))
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// token reads one of the tokens in the server's directory.
func (h *host) token(file string) string {
	data, err := os.ReadFile(filepath.Join(h.dir, file))
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// client talks to servers as an administrator.
func (w *world) client(hosts ...*host) *client.Client {
	w.t.Helper()
	o := client.Options{Token: hosts[0].token(server.AdminTokenFile), Attempts: 8, CallTimeout: 20 * time.Second}
	for _, h := range hosts {
		o.Addresses = append(o.Addresses, h.at.GRPC)
	}
	if w.tls {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
		o.TLS.RootCAs.AppendCertsFromPEM([]byte(hosts[0].token("ca.crt")))
	}
	c, err := client.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// agent starts `ares agent` with four simulated GPUs. It does not wait for its
// session; see online.
func (w *world) agent(node string, hosts ...*host) *proc {
	w.t.Helper()
	return w.agentBy(node, []string{"--token-file", filepath.Join(hosts[0].dir, server.NodeTokenFile)}, hosts...)
}

// joins starts `ares agent` with a join token of its own.
func (w *world) joins(c *client.Client, node string, hosts ...*host) *proc {
	w.t.Helper()
	made, err := c.CreateJoinToken(w.t.Context(), node, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.agentBy(node, []string{"--join", made.GetToken()}, hosts...)
}

func (w *world) agentBy(node string, proof []string, hosts ...*host) *proc {
	w.t.Helper()
	dir := filepath.Join(w.dir, node)
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	var at []string
	for _, h := range hosts {
		at = append(at, h.at.GRPC)
	}
	return w.start(node, w.ares, nil, append([]string{
		"agent", "--data-dir", dir, "--node", node, "--mock", "v100-4", "--isolation", "none", "--server", strings.Join(at, ","),
	}, proof...)...)
}

// online waits until nodes have a session.
func online(t *testing.T, c *client.Client, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		poll(t, patience, node+" to be online", func() (bool, string) {
			n, err := c.Node(t.Context(), node)
			return err == nil && n.GetState() == "online", fmt.Sprint(n.GetState(), err)
		})
	}
}

func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > n {
		data = append([]byte("…"), data[len(data)-n:]...)
	}
	return string(data)
}
