package robustness_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// These constants are the size of the test cluster.
const (
	members = 3 // etcd members and servers, one of each per machine
	nodes   = 8
	proxied = 3 // nodes that reach the servers through toxiproxy
)

// The type `patience` holds the timeouts of the cluster and the maximum size of the store.
type patience struct {
	session, leader time.Duration
	space           int // of the store, in bytes
}

var (
	// This variable holds timeouts with which Ares recovers from many faults
	// within a few minutes. They are long enough for a busy machine.
	short = patience{4 * time.Second, 2 * time.Second, 64 << 20}
	// This variable holds the default timeouts of a server.
	usual = patience{20 * time.Second, 5 * time.Second, 1 << 30}
)

// The processes of every machine listen on these ports. Every machine has its own IP address.
const (
	httpPort, grpcPort = 8080, 9090
	failpointPort      = 7777
	proxyPort          = 9100 // at the router
)

// The type `fleet` is the system under test: all machines and their processes.
type fleet struct {
	t        testing.TB
	patience patience
	dir      string // holds the machines' disks
	logs     string // holds the processes' logs, stored with the record
	ares     string
	controls []*machines.Machine
	workers  []*machines.Machine
	etcds    []*cluster.Process
	servers  []*cluster.Process
	agents   []*cluster.Process
	toxics   *machines.Toxiproxy
	db       *historytest.Postgres // database of history, on the router
	history  historytest.Base
	tls      *tls.Config
	token    string
}

func newFleet(t testing.TB, p patience, workers int, dir, logs string) *fleet {
	t.Helper()
	f := &fleet{t: t, patience: p, dir: dir, logs: logs, ares: live.Failpoints.Path(t)}
	machines.StartRouter(t)
	for i := range members {
		f.controls = append(f.controls, machines.New(t, dir, fmt.Sprintf("c%d", i+1), 1+i))
	}
	for i := range workers {
		f.workers = append(f.workers, machines.New(t, dir, fmt.Sprintf("n%d", i+1), 11+i))
	}
	f.certify()
	f.toxics = machines.StartToxiproxy(t, logs, nil)
	f.db = historytest.StartPostgresAt(t, f.controls[0].Router)
	f.history = f.db.New(t)
	for i := range f.controls {
		f.etcds = append(f.etcds, f.controls[i].StartEtcd(f.logs, f.controls, f.patience.space))
	}
	for i := range f.controls {
		f.servers = append(f.servers, f.startServer(i))
	}
	f.awaitToken()
	for i := range f.workers {
		f.agents = append(f.agents, f.startAgent(i))
	}
	return f
}

// This method returns all processes of the cluster.
func (f *fleet) processes() []*cluster.Process {
	out := append([]*cluster.Process{}, f.etcds...)
	return append(append(out, f.servers...), f.agents...)
}

func (f *fleet) end() {
	for _, p := range f.processes() {
		p.End()
	}
	f.toxics.End()
}

func (f *fleet) endpoints() []string { return machines.EtcdURLs(f.controls) }

func (f *fleet) startServer(i int) *cluster.Process {
	m := f.controls[i]
	return m.Start(f.logs, "server-"+m.Name, []string{f.failpoints(m)}, f.ares, "server", "--config", f.configure(i))
}

// `configure` writes the configuration file of a server and returns its path.
func (f *fleet) configure(i int) string {
	m := f.controls[i]
	dir := filepath.Join(m.Disk, "ares")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s:%d\ngrpc_addr: %s:%d\nmetrics_addr: 127.0.0.1:9091\n", dir, m.IP, httpPort, m.IP, grpcPort) +
		fmt.Sprintf("tls: {cert_file: %s, key_file: %s, ca_file: %s}\n", f.file("ca.pem"), f.file("key.pem"), f.file("ca.pem")) +
		"pki: {allow_node_token: true}\n" +
		fmt.Sprintf("history: {url: %q}\n", f.history.Config.URL) +
		fmt.Sprintf("objects: {dir: %s}\n", f.file("objects")) +
		fmt.Sprintf("etcd: {endpoints: [%s]}\n", strings.Join(f.endpoints(), ", ")) +
		fmt.Sprintf("sessions: {ttl_seconds: %d}\nscheduler: {leader_ttl_seconds: %d}\nhosts: [%s]\n", int(f.patience.session.Seconds()), int(f.patience.leader.Seconds()), m.IP)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return config
}

func (f *fleet) startAgent(i int) *cluster.Process {
	m := f.workers[i]
	var at []string
	for k, c := range f.controls {
		addr := fmt.Sprintf("%s:%d", c.IP, grpcPort)
		if i < proxied {
			addr = f.toxics.Proxy(fmt.Sprintf("%s-%s", m.Name, c.Name), fmt.Sprintf("%s:%d", m.Router, proxyPort+k), addr)
		}
		at = append(at, addr)
	}
	at = append(at[i%members:], at[:i%members]...) // spread the nodes over the servers
	return m.Start(f.logs, "agent-"+m.Name, []string{f.failpoints(m)}, f.ares, "agent", "--data-dir", m.Disk, "--node", m.Name, "--mock", "v100-4", "--isolation", "none",
		"--address", m.IP, "--server", strings.Join(at, ","), "--tls-ca", f.file("ca.pem"), "--token-file", f.file("node.token"))
}

// This method returns the address at which a process's failpoints are set.
func (f *fleet) failpoints(m *machines.Machine) string {
	return fmt.Sprintf("GOFAIL_HTTP=%s:%d", m.IP, failpointPort)
}

func (f *fleet) file(name string) string { return filepath.Join(f.dir, name) }

// awaitToken waits for the first server and reads its tokens. The tokens are in
// the store, so every server accepts them.
func (f *fleet) awaitToken() {
	f.t.Helper()
	dir := filepath.Join(f.controls[0].Disk, "ares")
	live.Await(f.t, time.Minute, "the first server", func() (bool, string) {
		admin, err := os.ReadFile(filepath.Join(dir, server.AdminTokenFile))
		node, nodeErr := os.ReadFile(filepath.Join(dir, server.NodeTokenFile))
		if err = errors.Join(err, nodeErr); err != nil || len(node) == 0 {
			return false, fmt.Sprint(err)
		}
		f.token = strings.TrimSpace(string(admin))
		err = errors.Join(os.WriteFile(f.file("node.token"), node, 0o600), os.WriteFile(f.file("admin.token"), admin, 0o600))
		if err != nil {
			f.t.Fatal(err)
		}
		c := f.client(0, 20*time.Second)
		defer c.Close()
		err = c.Ready(f.t.Context())
		return err == nil, fmt.Sprint(err)
	})
}

// `client` returns an administrator's client for one server. The client tries each call only
// once.
func (f *fleet) client(i int, timeout time.Duration) *client.Client {
	c, err := client.New(client.Options{
		Addresses: []string{fmt.Sprintf("%s:%d", f.controls[i].IP, grpcPort)}, Token: f.token, TLS: f.tls, Attempts: 1, CallTimeout: timeout,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// This method returns the index of the leading server, or -1 if no server
// leads.
func (f *fleet) leader(ctx context.Context) int {
	for i := range f.servers {
		c := f.client(i, time.Second)
		status, err := c.ClusterStatus(ctx)
		_ = c.Close()
		if err != nil {
			continue
		}
		for k, m := range f.controls {
			id, err := os.ReadFile(filepath.Join(m.Disk, "ares", "server.id"))
			if err == nil && strings.TrimSpace(string(id)) == status.GetLeader() {
				return k
			}
		}
	}
	return -1
}

// `certify` makes a certificate for every address of the cluster.
func (f *fleet) certify() {
	f.t.Helper()
	var addresses []string
	for _, m := range append(append([]*machines.Machine{}, f.controls...), f.workers...) {
		addresses = append(addresses, m.IP, m.Router)
	}
	cluster.WriteCertificate(f.t, f.file("ca.pem"), f.file("key.pem"), 48*time.Hour, addresses...) // some wall clocks are wrong by hours
	public, err := os.ReadFile(f.file("ca.pem"))
	if err != nil {
		f.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	f.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
}

// judgeOutput fails the test if the servers have not stored the output of jobs: the run would show nothing about the agents' uploads.
func (f *fleet) judgeOutput() {
	f.t.Helper()
	packs := 0
	err := filepath.WalkDir(f.file("objects/logs"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			packs++
		}
		return err
	})
	if f.t.Logf("the servers have stored output in %d objects", packs); err != nil || packs == 0 {
		f.t.Errorf("the servers have stored no output of jobs: %v", err)
	}
}
