package federation_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// These times let a federation recover from many faults within a few minutes. They are long enough for a busy machine.
const (
	sessionTTL = 6 * time.Second
	leaderTTL  = 3 * time.Second
	heartbeat  = time.Second
	halfLife   = 20 * time.Second // of the points that a cluster gets for lost connections
)

// These are the limits of the clocks' rates, in thousandths. Servers and agents promise to bear a difference of 25 % between two clocks.
const (
	fastest      = 1200
	slowest      = 800
	slowestAgent = 960
)

const (
	grpcPort      = 9090
	failpointPort = 7777
	storeSpace    = 64 << 20
	gpusPerNode   = 4
)

// A site is the hub or a cluster: machines with servers, some of them with an etcd member too, and machines with an agent.
type site struct {
	t        testing.TB
	name     string
	isHub    bool
	logs     string
	proxies  *machines.Machine
	controls []*machines.Machine // each has a server
	stores   []*machines.Machine // the first of them: each also has an etcd member
	workers  []*machines.Machine // each has an agent
	etcds    []*cluster.Process
	servers  []*cluster.Process
	agents   []*cluster.Process
	rates    []string // of the servers' clocks, in thousandths; "" for a right one
	// agentRates are the rates of the agents' clocks.
	agentRates []string

	token  string
	tls    *tls.Config
	record *trace.Writer
	rec    *recorder.Recorder
	meta   trace.Meta
	quiet  atomic.Bool // nothing is submitted to it
	away   atomic.Bool // its clients call nothing
}

// The method `unfinished` counts the jobs that have not ended. In a quiet site they are too many for another one.
func (s *site) unfinished() int {
	if s.quiet.Load() {
		return math.MaxInt
	}
	return s.rec.Unfinished()
}

// A plan says how many machines a site has. The machines' numbers begin with `first`.
type plan struct {
	name                     string
	servers, stores, workers int
	first                    int
}

// newSite creates the machines of a site and starts its etcd members, its servers and its agents.
func (f *fleet) newSite(p plan, isHub bool, rates *rand.Rand) *site {
	t, dir, logs := f.t, f.dir, f.home
	t.Helper()
	s := &site{t: t, name: p.name, isHub: isHub, logs: logs, proxies: f.proxies}
	s.rates = drawRates(rates, p.servers, slowest, fastest)
	s.agentRates = drawRates(rates, p.workers, slowestAgent, fastest)
	for i := range p.servers {
		s.controls = append(s.controls, machines.New(t, dir, fmt.Sprintf("%s-c%d", p.name, i+1), p.first+i))
	}
	s.stores = s.controls[:p.stores]
	for i := range p.workers {
		s.workers = append(s.workers, machines.New(t, dir, fmt.Sprintf("%s-n%d", p.name, i+1), p.first+p.servers+i))
	}
	for _, m := range s.stores {
		s.etcds = append(s.etcds, m.StartEtcd(logs, s.stores, storeSpace))
	}
	for i, m := range s.controls {
		s.servers = append(s.servers, m.Start(logs, "server-"+m.Name, s.env(i), live.Failpoints.Path(t), "server", "--config", s.configure(m)))
	}
	return s
}

// The method `env` returns the environment of a server, whatever fault restarts it.
func (s *site) env(i int) []string {
	out := []string{fmt.Sprintf("GOFAIL_HTTP=%s:%d", s.controls[i].IP, failpointPort), fmt.Sprintf("ARES_TEST_HALF_LIFE=%d", int(halfLife.Seconds()))}
	return append(out, clockRate(s.rates[i])...)
}

// clockRate returns the environment of a process whose clocks have a rate.
func clockRate(rate string) []string {
	if rate == "" {
		return nil
	}
	return []string{"ARES_TEST_CLOCK_RATE=" + rate}
}

// `configure` writes the configuration file of a server and returns its path.
func (s *site) configure(m *machines.Machine) string {
	dir := s.dataDir(m)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	role := "cluster"
	if s.isHub {
		role = "global"
	}
	file := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("role: %s\ndata_dir: %s\nhttp_addr: 127.0.0.1:8080\ngrpc_addr: %s:%d\nmetrics_addr: 127.0.0.1:9091\n", role, dir, m.IP, grpcPort) +
		fmt.Sprintf("hosts: [%s, %s]\npki: {allow_node_token: true}\netcd: {endpoints: [%s]}\n", m.IP, s.proxies.IP, strings.Join(machines.EtcdURLs(s.stores), ", ")) +
		fmt.Sprintf("sessions: {ttl_seconds: %d}\nscheduler: {leader_ttl_seconds: %d}\n", int(sessionTTL.Seconds()), int(leaderTTL.Seconds())) +
		fmt.Sprintf("federation: {heartbeat_ms: %d}\n", heartbeat.Milliseconds())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

func (s *site) dataDir(m *machines.Machine) string { return filepath.Join(m.Disk, "ares") }

// The method `file` returns the path of a file that belongs to the whole site, such as a token.
func (s *site) file(name string) string { return filepath.Join(s.controls[0].Disk, name) }

// awaitReady waits for the first server, and reads its tokens and its certificate authority. They are in the store, so they
// are those of every server.
func (s *site) awaitReady() {
	s.t.Helper()
	dir := s.dataDir(s.controls[0])
	live.Await(s.t, 2*time.Minute, "the first server of "+s.name, func() (bool, string) {
		admin, err := os.ReadFile(filepath.Join(dir, server.AdminTokenFile))
		node, nodeErr := os.ReadFile(filepath.Join(dir, server.NodeTokenFile))
		ca, caErr := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err = errors.Join(err, nodeErr, caErr); err != nil && !s.isHub || len(admin) == 0 || len(ca) == 0 {
			return false, fmt.Sprint(err)
		}
		for name, data := range map[string][]byte{"admin.token": admin, "node.token": node, "ca.pem": ca} {
			if err = os.WriteFile(s.file(name), data, 0o600); err != nil {
				s.t.Fatal(err)
			}
		}
		s.token = strings.TrimSpace(string(admin))
		s.tls = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
		s.tls.RootCAs.AppendCertsFromPEM(ca)
		c := s.client(0, 20*time.Second)
		defer c.Close()
		err = c.Ready(s.t.Context())
		return err == nil, fmt.Sprint(err)
	})
}

// startAgents starts an agent on each worker and waits until all are online.
func (s *site) startAgents() {
	s.t.Helper()
	for i, m := range s.workers {
		var at []string
		for k := range s.controls {
			at = append(at, s.address((i+k)%len(s.controls)))
		}
		s.agents = append(s.agents, m.Start(s.logs, "agent-"+m.Name, clockRate(s.agentRates[i]), live.Failpoints.Path(s.t), "agent", "--data-dir", m.Disk, "--node", m.Name,
			"--mock", fmt.Sprintf("v100-%d", gpusPerNode), "--isolation", "none", "--address", m.IP, "--server", strings.Join(at, ","),
			"--tls-ca", s.file("ca.pem"), "--token-file", s.file("node.token")))
	}
	c := s.client(0, 20*time.Second)
	defer c.Close()
	for _, m := range s.workers {
		live.Await(s.t, 2*time.Minute, m.Name+" to be online", func() (bool, string) {
			n, err := c.Node(s.t.Context(), m.Name)
			return n.GetState() == "online", fmt.Sprint(n.GetState(), err)
		})
	}
}

func (s *site) address(i int) string { return fmt.Sprintf("%s:%d", s.controls[i].IP, grpcPort) }

// The method `client` returns an administrator's client of one server. It tries each call only once.
func (s *site) client(i int, timeout time.Duration) *client.Client {
	return s.dial(timeout, 1, s.address(i))
}

// The method `patient` returns an administrator's client of all servers, which repeats its calls.
func (s *site) patient() *client.Client {
	var at []string
	for i := range s.controls {
		at = append(at, s.address(i))
	}
	return s.dial(5*time.Second, 8, at...)
}

func (s *site) dial(timeout time.Duration, attempts int, at ...string) *client.Client {
	c, err := client.New(client.Options{Addresses: at, Token: s.token, TLS: s.tls, Attempts: attempts, CallTimeout: timeout})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// This method returns the index of the leading server, or -1 if no server leads.
func (s *site) leader(ctx context.Context) int {
	for i := range s.servers {
		c := s.client(i, time.Second)
		status, err := c.ClusterStatus(ctx)
		_ = c.Close()
		if err != nil {
			continue
		}
		for k, m := range s.controls {
			id, err := os.ReadFile(filepath.Join(s.dataDir(m), "server.id"))
			if err == nil && strings.TrimSpace(string(id)) == status.GetLeader() {
				return k
			}
		}
	}
	return -1
}

// This method returns all processes of the site.
func (s *site) processes() []*cluster.Process {
	return append(append(append([]*cluster.Process{}, s.etcds...), s.servers...), s.agents...)
}

// The method `note` writes the description of the site's record.
func (s *site) note() {
	if err := s.record.Meta(s.meta); err != nil {
		s.t.Error(err)
	}
}
