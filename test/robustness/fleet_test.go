package robustness_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/history/historytest"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/live"
)

// The size of the fleet.
const (
	members = 3 // of etcd, and servers, one of each on a machine
	nodes   = 8
	proxied = 3 // nodes that reach the servers through toxiproxy
)

// patience is how long silence is borne, and how much the store may hold.
type patience struct {
	session, leader time.Duration
	space           int // of the store, in bytes
}

var (
	// short lets many faults run their whole course in a few minutes, with
	// room for a busy machine.
	short = patience{4 * time.Second, 2 * time.Second, 64 << 20}
	// usual is what a server does unless it is told otherwise.
	usual = patience{20 * time.Second, 5 * time.Second, 1 << 30}
)

// The ports on each machine; the machines do not share any.
const (
	etcdPort, peerPort, httpPort, grpcPort = 2379, 2380, 8080, 9090
	failpointPort                          = 7777
	proxyPort, proxyAPI                    = 9100, 8474 // at the router
)

// fleet is the system under test.
type fleet struct {
	t        testing.TB
	patience patience
	dir      string // of the machines' disks
	logs     string // of the processes' logs, kept with the record
	ares     string
	controls []*machine
	workers  []*machine
	etcds    []*process
	servers  []*process
	agents   []*process
	toxics   *toxiproxy
	db       *historytest.Postgres // of history, at the router
	history  historytest.Base
	tls      *tls.Config
	token    string
}

func newFleet(t testing.TB, p patience, dir, logs string) *fleet {
	t.Helper()
	f := &fleet{t: t, patience: p, dir: dir, logs: logs, ares: live.Program(t, "ARES_TEST_FAILPOINTS", "../../.bin/failpoints/ares", "make failpoints")}
	startRouter(t)
	for i := range members {
		f.controls = append(f.controls, newMachine(t, dir, fmt.Sprintf("c%d", i+1), 1+i))
	}
	for i := range nodes {
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

// processes are all that the fleet is made of.
func (f *fleet) processes() []*process {
	out := append([]*process{}, f.etcds...)
	return append(append(out, f.servers...), f.agents...)
}

func (f *fleet) end() {
	for _, p := range f.processes() {
		p.end()
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

func (f *fleet) startEtcd(i int) *process {
	m := f.controls[i]
	var cluster []string
	for _, c := range f.controls {
		cluster = append(cluster, fmt.Sprintf("%s=http://%s:%d", c.name, c.ip, peerPort))
	}
	own, peer := f.endpoints()[i], fmt.Sprintf("http://%s:%d", m.ip, peerPort)
	return start(f.t, m, f.logs, "etcd-"+m.name, live.Program(f.t, "ARES_TEST_ETCD", "../../.bin/etcd", "make tools"), nil,
		"--name", m.name, "--data-dir", filepath.Join(m.disk, "etcd"), "--initial-cluster", strings.Join(cluster, ","),
		"--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--heartbeat-interval", "100", "--election-timeout", "1000", "--quota-backend-bytes", fmt.Sprint(f.patience.space), "--log-level", "warn")
}

func (f *fleet) startServer(i int) *process {
	m := f.controls[i]
	dir := filepath.Join(m.disk, "ares")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s:%d\ngrpc_addr: %s:%d\nmetrics_addr: 127.0.0.1:9091\n", dir, m.ip, httpPort, m.ip, grpcPort) +
		fmt.Sprintf("tls: {cert_file: %s, key_file: %s, ca_file: %s}\n", f.file("cert.pem"), f.file("key.pem"), f.file("ca.pem")) +
		"pki: {allow_node_token: true}\n" +
		fmt.Sprintf("history: {url: %q}\n", f.history.Config.URL) +
		fmt.Sprintf("etcd: {endpoints: [%s]}\n", strings.Join(f.endpoints(), ", ")) +
		fmt.Sprintf("sessions: {ttl_seconds: %d}\nscheduler: {leader_ttl_seconds: %d}\nhosts: [%s]\n", int(f.patience.session.Seconds()), int(f.patience.leader.Seconds()), m.ip)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return start(f.t, m, f.logs, "server-"+m.name, f.ares, []string{f.failpoints(m)}, "server", "--config", config)
}

func (f *fleet) startAgent(i int) *process {
	m := f.workers[i]
	var at []string
	for k, c := range f.controls {
		addr := fmt.Sprintf("%s:%d", c.ip, grpcPort)
		if i < proxied {
			addr = f.toxics.proxy(fmt.Sprintf("%s-%s", m.name, c.name), fmt.Sprintf("%s:%d", m.hub, proxyPort+k), addr)
		}
		at = append(at, addr)
	}
	at = append(at[i%members:], at[:i%members]...) // spread over the servers
	return start(f.t, m, f.logs, "agent-"+m.name, f.ares, []string{f.failpoints(m)}, "agent", "--data-dir", m.disk, "--node", m.name, "--mock", "v100-4", "--isolation", "none",
		"--address", m.ip, "--server", strings.Join(at, ","), "--tls-ca", f.file("ca.pem"), "--token-file", f.file("node.token"))
}

// failpoints is where a process of the failpoint build can be told to fail.
func (f *fleet) failpoints(m *machine) string {
	return fmt.Sprintf("GOFAIL_HTTP=%s:%d", m.ip, failpointPort)
}

func (f *fleet) file(name string) string { return filepath.Join(f.dir, name) }

// awaitToken waits for the first server and takes its tokens; the store holds
// them, so every server accepts them.
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

// client talks to one server as an administrator, and tries each call once.
func (f *fleet) client(i int, timeout time.Duration) *client.Client {
	c, err := client.New(client.Options{
		Addresses: []string{fmt.Sprintf("%s:%d", f.controls[i].ip, grpcPort)}, Token: f.token, TLS: f.tls, Attempts: 1, CallTimeout: timeout,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// leader is the index of the server that leads, -1 when none does.
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

// certify makes a certificate for every address of the fleet.
func (f *fleet) certify() {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "robustness"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), // clocks are set wrong by hours
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, m := range append(append([]*machine{}, f.controls...), f.workers...) {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(m.ip), net.ParseIP(m.hub))
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	for name, data := range map[string][]byte{
		"ca.pem": public, "cert.pem": public, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(f.file(name), data, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	f.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
}
