package robustness_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/store/storetest"
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
	etcdPort, peerPort, httpPort, grpcPort = 2379, 2380, 8080, 9090
	failpointPort                          = 7777
	proxyPort, proxyAPI                    = 9100, 8474 // at the router
)

// The type `fleet` is the system under test: all machines and their processes.
type fleet struct {
	t        testing.TB
	patience patience
	dir      string // holds the machines' disks
	logs     string // holds the processes' logs, stored with the record
	ares     string
	controls []*machine
	workers  []*machine
	etcds    []*cluster.Process
	servers  []*cluster.Process
	agents   []*cluster.Process
	toxics   *toxiproxy
	db       *historytest.Postgres // database of history, on the router
	history  historytest.Base
	tls      *tls.Config
	token    string
}

func newFleet(t testing.TB, p patience, workers int, dir, logs string) *fleet {
	t.Helper()
	f := &fleet{t: t, patience: p, dir: dir, logs: logs, ares: live.Failpoints.Path(t)}
	startRouter(t)
	for i := range members {
		f.controls = append(f.controls, newMachine(t, dir, fmt.Sprintf("c%d", i+1), 1+i))
	}
	for i := range workers {
		f.workers = append(f.workers, newMachine(t, dir, fmt.Sprintf("n%d", i+1), 11+i))
	}
	f.certify()
	f.toxics = startToxiproxy(t, logs)
	f.db = historytest.StartPostgresAt(t, f.controls[0].hub)
	f.history = f.db.New(t)
	for i := range f.controls {
		f.etcds = append(f.etcds, f.startEtcd(i))
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
	f.toxics.end()
}

func (f *fleet) endpoints() []string {
	var out []string
	for _, m := range f.controls {
		out = append(out, fmt.Sprintf("http://%s:%d", m.ip, etcdPort))
	}
	return out
}

func (f *fleet) startEtcd(i int) *cluster.Process {
	m := f.controls[i]
	var initial []string
	for _, c := range f.controls {
		initial = append(initial, fmt.Sprintf("%s=http://%s:%d", c.name, c.ip, peerPort))
	}
	own, peer := f.endpoints()[i], fmt.Sprintf("http://%s:%d", m.ip, peerPort)
	argv := append([]string{live.Etcd.Path(f.t)}, storetest.EtcdFlags(m.name, filepath.Join(m.disk, "etcd"), own, peer, strings.Join(initial, ","))...)
	return m.start(f.logs, "etcd-"+m.name, nil, append(argv, "--heartbeat-interval", "100", "--election-timeout", "1000",
		"--quota-backend-bytes", fmt.Sprint(f.patience.space), "--log-level", "warn")...)
}

func (f *fleet) startServer(i int) *cluster.Process {
	m := f.controls[i]
	return m.start(f.logs, "server-"+m.name, []string{f.failpoints(m)}, f.ares, "server", "--config", f.configure(i))
}

// `configure` writes the configuration file of a server and returns its path.
func (f *fleet) configure(i int) string {
	m := f.controls[i]
	dir := filepath.Join(m.disk, "ares")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s:%d\ngrpc_addr: %s:%d\nmetrics_addr: 127.0.0.1:9091\n", dir, m.ip, httpPort, m.ip, grpcPort) +
		fmt.Sprintf("tls: {cert_file: %s, key_file: %s, ca_file: %s}\n", f.file("ca.pem"), f.file("key.pem"), f.file("ca.pem")) +
		"pki: {allow_node_token: true}\n" +
		fmt.Sprintf("history: {url: %q}\n", f.history.Config.URL) +
		fmt.Sprintf("etcd: {endpoints: [%s]}\n", strings.Join(f.endpoints(), ", ")) +
		fmt.Sprintf("sessions: {ttl_seconds: %d}\nscheduler: {leader_ttl_seconds: %d}\nhosts: [%s]\n", int(f.patience.session.Seconds()), int(f.patience.leader.Seconds()), m.ip)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return config
}

func (f *fleet) startAgent(i int) *cluster.Process {
	m := f.workers[i]
	var at []string
	for k, c := range f.controls {
		addr := fmt.Sprintf("%s:%d", c.ip, grpcPort)
		if i < proxied {
			addr = f.toxics.proxy(fmt.Sprintf("%s-%s", m.name, c.name), fmt.Sprintf("%s:%d", m.hub, proxyPort+k), addr)
		}
		at = append(at, addr)
	}
	at = append(at[i%members:], at[:i%members]...) // spread the nodes over the servers
	return m.start(f.logs, "agent-"+m.name, []string{f.failpoints(m)}, f.ares, "agent", "--data-dir", m.disk, "--node", m.name, "--mock", "v100-4", "--isolation", "none",
		"--address", m.ip, "--server", strings.Join(at, ","), "--tls-ca", f.file("ca.pem"), "--token-file", f.file("node.token"))
}

// This method returns the address at which a process's failpoints are set.
func (f *fleet) failpoints(m *machine) string {
	return fmt.Sprintf("GOFAIL_HTTP=%s:%d", m.ip, failpointPort)
}

func (f *fleet) file(name string) string { return filepath.Join(f.dir, name) }

// awaitToken waits for the first server and reads its tokens. The tokens are in
// the store, so every server accepts them.
func (f *fleet) awaitToken() {
	f.t.Helper()
	dir := filepath.Join(f.controls[0].disk, "ares")
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
		Addresses: []string{fmt.Sprintf("%s:%d", f.controls[i].ip, grpcPort)}, Token: f.token, TLS: f.tls, Attempts: 1, CallTimeout: timeout,
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
			id, err := os.ReadFile(filepath.Join(m.disk, "ares", "server.id"))
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
	for _, m := range append(append([]*machine{}, f.controls...), f.workers...) {
		addresses = append(addresses, m.ip, m.hub)
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
