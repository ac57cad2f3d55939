package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/live"
)

// StartAgent starts `ares agent` with four simulated GPUs. The agent connects
// to the given servers, or to all servers if none is given. With TLS, the
// agent gets its own join token; otherwise it uses the shared node token.
// StartAgent does not wait for the agent's session.
func (c *Cluster) StartAgent(node string, servers ...*Server) *Process {
	c.t.Helper()
	if len(servers) == 0 {
		servers = c.Servers
	}
	if !c.options.tls {
		return c.StartAgentWith(node, []string{"--token-file", filepath.Join(servers[0].Dir, server.NodeTokenFile)}, servers...)
	}
	made, err := c.Client(servers...).CreateJoinToken(c.t.Context(), node, time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.StartAgentWith(node, []string{"--join", made.GetToken()}, servers...)
}

// StartAgentWith is like StartAgent, but the given flags replace the flags for
// the agent's token.
func (c *Cluster) StartAgentWith(node string, flags []string, servers ...*Server) *Process {
	c.t.Helper()
	dir := c.Path(node)
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	argv := []string{
		c.Ares, "agent", "--data-dir", dir, "--node", node, "--mock", "v100-4", "--isolation", "none",
		"--server", strings.Join(grpcAddresses(servers), ","),
	}
	if c.CertFile != "" {
		argv = append(argv, "--tls-ca", c.CertFile)
	}
	p := c.Run(node, c.options.env, append(argv, flags...)...)
	c.Agents = append(c.Agents, p)
	return p
}

// AwaitOnline waits until each of the given nodes has a session.
func (c *Cluster) AwaitOnline(nodes ...string) {
	c.t.Helper()
	calls := c.Client()
	for _, node := range nodes {
		live.Await(c.t, Patience, node+" to be online", func() (bool, string) {
			n, err := calls.Node(c.t.Context(), node)
			return err == nil && n.GetState() == "online", fmt.Sprint(n.GetState(), err)
		})
	}
}
