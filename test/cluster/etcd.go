package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
	"github.com/ares-scheduler/ares/test/live"
)

// Member is one etcd process.
type Member struct {
	*Process

	Dir          string // of its data
	Client, Peer string // URLs
}

func (c *Cluster) startEtcd() {
	c.t.Helper()
	for i := range c.options.etcd {
		name := fmt.Sprintf("etcd-%d", i+1)
		c.Etcd = append(c.Etcd, &Member{
			Process: &Process{Name: name}, Dir: c.Path(name), Client: "http://" + live.FreeAddr(c.t), Peer: "http://" + live.FreeAddr(c.t),
		})
	}
	initial := c.InitialCluster()
	for _, m := range c.Etcd {
		argv := append([]string{live.Etcd.Path(c.t)}, storetest.EtcdFlags(m.Name, m.Dir, m.Client, m.Peer, initial)...)
		m.Process = c.Run(m.Name, nil, append(append(argv, "--log-level", "error"), c.options.etcdFlags...)...)
	}
}

// InitialCluster returns the value of etcd's flag --initial-cluster.
func (c *Cluster) InitialCluster() string {
	var out []string
	for _, m := range c.Etcd {
		out = append(out, m.Name+"="+m.Peer)
	}
	return strings.Join(out, ",")
}

// Endpoints returns the client URLs of the etcd members.
func (c *Cluster) Endpoints() []string {
	var out []string
	for _, m := range c.Etcd {
		out = append(out, m.Client)
	}
	return out
}

// Store opens the external store and closes it when the test ends.
func (c *Cluster) Store() *store.Store {
	c.t.Helper()
	s, err := store.Open(c.t.Context(), store.Config{Endpoints: c.Endpoints(), Timeout: 20 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = s.Close() })
	return s
}
