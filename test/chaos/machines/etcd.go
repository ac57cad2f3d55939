package machines

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ares-scheduler/ares/store/storetest"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// The members of an etcd cluster listen on these ports, each on its own machine.
const etcdPort, peerPort = 2379, 2380

// EtcdDir is the data directory of the etcd member on this machine.
func (m *Machine) EtcdDir() string { return filepath.Join(m.Disk, "etcd") }

// EtcdURL is where the etcd member on this machine serves clients.
func (m *Machine) EtcdURL() string { return fmt.Sprintf("http://%s:%d", m.IP, etcdPort) }

// PeerURL is where the etcd member on this machine serves the other members.
func (m *Machine) PeerURL() string { return fmt.Sprintf("http://%s:%d", m.IP, peerPort) }

// EtcdURLs returns the URL of each machine's etcd member.
func EtcdURLs(members []*Machine) []string {
	var out []string
	for _, m := range members {
		out = append(out, m.EtcdURL())
	}
	return out
}

// InitialCluster describes an etcd cluster with a member on each of the machines, as etcd's flag --initial-cluster does.
func InitialCluster(members []*Machine) string {
	var out []string
	for _, m := range members {
		out = append(out, m.Name+"="+m.PeerURL())
	}
	return strings.Join(out, ",")
}

// StartEtcd starts the machine's member of an etcd cluster. The store rejects writes when it is larger than `space` bytes.
func (m *Machine) StartEtcd(logs string, members []*Machine, space int, flags ...string) *cluster.Process {
	m.t.Helper()
	argv := append([]string{live.Etcd.Path(m.t)}, storetest.EtcdFlags(m.Name, m.EtcdDir(), m.EtcdURL(), m.PeerURL(), InitialCluster(members))...)
	argv = append(argv, "--heartbeat-interval", "100", "--election-timeout", "1000", "--quota-backend-bytes", fmt.Sprint(space), "--log-level", "warn")
	return m.Start(logs, "etcd-"+m.Name, nil, append(argv, flags...)...)
}
