package load

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
)

// testServer is an `ares server` process and the etcd process that it uses.
type testServer struct {
	*cluster.Cluster
	server       *cluster.Server
	admin, agent string // tokens
}

// startServer starts etcd and a server. The parameter `config` is appended to
// the server's configuration file.
func startServer(b *testing.B, config string) *testServer {
	c := cluster.Start(b, cluster.Etcd(1), cluster.Servers(1), cluster.Config(config+"\n"))
	s := c.Servers[0]
	return &testServer{Cluster: c, server: s, admin: s.File(server.AdminTokenFile), agent: s.File(server.NodeTokenFile)}
}

// The type `usage` holds the processor time and the memory that the server and
// etcd used during a measurement.
type usage struct {
	server, etcd    float64 // processor use, in cores
	serverMB        float64
	serverPeakMB    float64
	etcdMB          float64
	goroutines      int
	openDescriptors int
}

// This method calls the function `do`. It measures the server and etcd
// processes until that function returns.
func (p *testServer) during(do func()) usage {
	etcd := p.Etcd[0]
	begin, s, e := time.Now(), p.server.CPU(), etcd.CPU()
	do()
	took := time.Since(begin).Seconds()
	u := usage{server: (p.server.CPU() - s).Seconds() / took, etcd: (etcd.CPU() - e).Seconds() / took}
	now, peak := p.server.Memory()
	u.serverMB, u.serverPeakMB = float64(now)/(1<<20), float64(peak)/(1<<20)
	now, _ = etcd.Memory()
	u.etcdMB = float64(now) / (1 << 20)
	u.goroutines = int(p.server.Metric("go_goroutines"))
	u.openDescriptors = int(p.server.Metric("process_open_fds"))
	return u
}
