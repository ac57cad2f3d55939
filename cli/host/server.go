package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// serverFlags are the flags of every command that starts a server. A flag overrides the
// environment, and the environment overrides the configuration file.
type serverFlags struct {
	config, http, grpc, metrics, advertise, record, level, role string
}

func (f *serverFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "configuration file, in the form of Ares (see ares config default, and docs/reference/configuration.md) or of the gpu-scheduler")
	c.Flags().StringVar(&f.http, "http-addr", "", "address for REST (default 127.0.0.1:8080)")
	c.Flags().StringVar(&f.grpc, "grpc-addr", "", "address for gRPC (default 127.0.0.1:9090)")
	c.Flags().StringVar(&f.metrics, "metrics-addr", "", "address for /metrics (default 127.0.0.1:9091)")
	c.Flags().StringVar(&f.advertise, "advertise-addr", "", "address at which agents and other servers reach gRPC, HOST:PORT (ARES_ADVERTISE_ADDR; default --grpc-addr)")
	c.Flags().StringVar(&f.record, "record", "", "directory for recordings of decisions (ARES_RECORDING_DIR; default recordings in the data directory)")
	c.Flags().StringVar(&f.level, "log-level", "", "debug, info, warn or error (LOG_LEVEL)")
}

func (a *commands) serverConfig(f *serverFlags) (server.Config, error) {
	cfg, err := server.Load(f.config, os.Environ())
	if err != nil {
		return cfg, err
	}
	for to, given := range map[*string]string{
		&cfg.DataDir: a.DataDir, &cfg.HTTPAddr: f.http, &cfg.GRPCAddr: f.grpc, &cfg.MetricsAddr: f.metrics, &cfg.AdvertiseAddr: f.advertise, &cfg.Log.Level: f.level,
		&cfg.Recording.Dir: f.record, &cfg.Role: f.role,
	} {
		if given != "" {
			*to = given
		}
	}
	server.Version = a.Version
	if err = cfg.Check(); err != nil {
		return cfg, err
	}
	for _, notice := range cfg.Notices() {
		cfg.NewLog(a.Err).Info("configuration", "notice", notice)
	}
	return cfg, nil
}

func (a *commands) serverCommand() *cobra.Command {
	var f serverFlags
	c := &cobra.Command{
		Use: "server", Short: "Run a server without a node agent", Example: "  ares server --config ares.yaml", Args: command.ExactArgs(),
		Long: "Run a server until it is interrupted. If etcd.endpoints or ETCD_ENDPOINTS is set,\nthe server uses the etcd at these endpoints. Several servers can share one etcd.\n\nWith --role global the server is a hub: it has no nodes, and gives its jobs to the clusters\nthat have joined it (see docs/guide/federation.md).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.serverConfig(&f)
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), cfg)
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.role, "role", "", "cluster for a cluster with nodes, or global for a hub of clusters (ARES_ROLE; default cluster)")
	output.Must(c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{server.RoleCluster, server.RoleGlobal}, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// The method `serve` runs a server without a node agent.
func (a *commands) serve(ctx context.Context, cfg server.Config) error {
	server.TuneMemory()
	return server.Run(ctx, cfg, cfg.NewLog(a.Err), func(s *server.Server) {
		a.announce(s)
		if s.Endpoints.CA == "" && s.Hub == nil {
			output.Printf(a.Out, "  join a node      ares agent --server %s --token-file %s\n", s.Endpoints.GRPC, cfg.DataDir+"/"+server.NodeTokenFile)
		}
	})
}

// The method `announce` prints the addresses of a server.
func (a *commands) announce(s *server.Server) {
	output.Printf(a.Out, "Ares %s is up.\n", a.Version)
	output.Printf(a.Out, "  REST             %s\n", s.URL(s.Endpoints.HTTP))
	output.Printf(a.Out, "  gRPC             %s\n", s.Endpoints.GRPC)
	output.Printf(a.Out, "  metrics          %s/metrics\n", s.URL(s.Endpoints.Metrics))
	output.Printf(a.Out, "  admin token      %s\n", s.AdminToken)
	if s.Endpoints.CA != "" {
		output.Printf(a.Out, "  authority        %s (for clients on other machines: --tls-ca FILE)\n", filepath.Join(filepath.Dir(s.AdminToken), s.Endpoints.CA))
	}
	switch {
	case s.Hub != nil && s.Endpoints.CA == "":
		output.Printf(a.Out, "  join a cluster   not possible: set grpc_addr to an address of the network, because clusters join with TLS\n")
	case s.Hub != nil:
		output.Printf(a.Out, "  join a cluster   ares cluster register NAME, then in the cluster: ares join --global %s --token TOKEN\n", s.Advertised())
	case s.Endpoints.CA != "":
		output.Printf(a.Out, "  join a node      ares node token create, then on the node: ares agent --server %s --join TOKEN\n", s.Advertised())
	}
}

func (a *commands) upCommand() *cobra.Command {
	var f serverFlags
	var n nodeFlags
	c := &cobra.Command{
		Use: "up", Short: "Run a server, its store and a node on this machine", Example: "  ares up --mock dgx-a100", Args: command.ExactArgs(),
		Long: "Run a server with an embedded store and a node agent until the command is interrupted. The next\n\"ares up\" uses the same data. Running jobs continue for a while after an interruption, and the\nnext \"ares up\" adopts them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.serverConfig(&f)
			if err != nil {
				return err
			}
			return a.up(cmd.Context(), cfg, &n)
		},
	}
	f.add(c)
	n.add(c)
	return c
}

func (a *commands) up(ctx context.Context, cfg server.Config, n *nodeFlags) error {
	log := cfg.NewLog(a.Err)
	node, err := n.config(cfg.DataDir, &cfg, a.Version, log)
	if err != nil {
		return err
	}
	server.TuneMemory()
	return server.Up(ctx, cfg, node, log, func(s *server.Server, ag *agent.Agent) {
		a.announce(s)
		a.announceDevices(ag)
		try := command.Program() + strings.TrimPrefix(a.InvocationFor(cfg.DataDir), "ares")
		output.Printf(a.Out, "\nTry, in another terminal:\n\n  %s job submit --name hello -- echo hello\n\n", try)
	})
}

// announceDevices prints the devices of a node, and how to simulate others.
func (a *commands) announceDevices(ag *agent.Agent) {
	output.Printf(a.Out, "  devices          %s\n", output.Clean(devices(ag.Node())))
	if profile := ag.MockProfile(); profile != "" {
		output.Printf(a.Out, "  mock profile     %s\n", otherProfiles(profile))
	}
	output.Printf(a.Out, "  isolation        %s\n", output.Clean(ag.Node().Isolation))
}

// otherProfiles names the profile of simulated devices, and says how to choose another one.
func otherProfiles(profile string) string {
	others := slices.DeleteFunc(gpu.Profiles(), func(p string) bool { return p == profile })
	return fmt.Sprintf("%s (choose another with %s=NAME or --mock NAME: %s)", profile, gpu.MockEnv, strings.Join(others, ", "))
}

// The function `devices` describes the devices of a node and whether they are simulated.
func devices(n ares.Node) string {
	if len(n.Devices) == 0 {
		return fmt.Sprintf("no GPUs; %d CPU cores, %d MB of memory", n.CPUs, n.MemoryMB)
	}
	kind := "real"
	if n.Mock {
		kind = "MOCK: simulated devices, real processes"
	}
	return fmt.Sprintf("%d x %s (%s)", len(n.Devices), n.Devices[0].Model, kind)
}

// nodeFlags are the flags of every command that runs a node agent.
type nodeFlags struct {
	node, address, mock string
	labels, taints      []string
	isolation           string
	allowUntrusted      bool
	file, level, join   string
}

func (n *nodeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&n.node, "node", "", "name of this node (WORKER_ID; default the host's name)")
	c.Flags().StringVar(&n.address, "address", "", "address at which ranks on other nodes reach this node (default 127.0.0.1)")
	c.Flags().StringArrayVar(&n.labels, "node-label", nil, "label of this node, NAME=VALUE; may be repeated")
	c.Flags().StringArrayVar(&n.taints, "taint", nil, "taint of this node, KEY=VALUE:NoSchedule or :PreferNoSchedule; may be repeated (ARES_TAINTS)")
	c.Flags().StringVar(&n.isolation, "isolation", "", "user that jobs run as: tenant, job, user, none or auto (ARES_ISOLATION_MODE; see docs/guide/isolation.md)")
	output.Must(c.RegisterFlagCompletionFunc("isolation", cobra.FixedCompletions([]string{agent.IsolateAuto, agent.IsolateTenant, agent.IsolateJob, agent.IsolateUser, agent.IsolateNone}, cobra.ShellCompDirectiveNoFileComp)))
	c.Flags().BoolVar(&n.allowUntrusted, "allow-untrusted", false, "without isolation, run jobs of all users and not only of platform administrators (ARES_ISOLATION_ALLOW_UNTRUSTED)")
	c.Flags().StringVar(&n.mock, "mock", "", "simulate the devices of "+strings.Join(gpu.Profiles(), ", ")+"; or off")
	output.Must(c.RegisterFlagCompletionFunc("mock", cobra.FixedCompletions(append(gpu.Profiles(), gpu.Off), cobra.ShellCompDirectiveNoFileComp)))
}

// The method `config` returns the configuration of an agent. The argument `general` holds the
// values from the configuration file and the environment.
func (n *nodeFlags) config(dataDir string, general *server.Config, version string, log *slog.Logger) (agent.Config, error) {
	cfg := agent.Config{
		Node: cmp.Or(n.node, os.Getenv("WORKER_ID")), Dir: dataDir + "/agent", Address: n.address, Mock: n.mock,
		Isolation: general.Isolation, Images: general.Images, Version: version, Log: log,
	}
	cfg.Isolation.AllowUntrusted = cfg.Isolation.AllowUntrusted || n.allowUntrusted
	if n.isolation != "" {
		cfg.Isolation.Mode = n.isolation
		var p ares.Problems // check the mode before anything starts
		if cfg.Isolation.Check(&p); len(p) > 0 {
			return cfg, p.Err()
		}
	}
	if cfg.Node == "" {
		host, err := os.Hostname()
		if err != nil || !ares.ValidName(host) {
			return cfg, exit.Usagef("host name %q is not a valid node name: set one with --node", host)
		}
		cfg.Node = host
	}
	taints := n.taints
	if len(taints) == 0 {
		taints = general.Taints
	}
	for _, text := range taints {
		t, err := ares.ParseTaint(text)
		if err != nil {
			return cfg, exit.Usagef("--taint: %s", err)
		}
		cfg.Taints = append(cfg.Taints, t)
	}
	return cfg, command.AssignPairs(&cfg.Labels, "--node-label", n.labels)
}

func (a *commands) agentCommand() *cobra.Command {
	var n nodeFlags
	c := &cobra.Command{
		Use: "agent", Short: "Run the node agent of this machine", Args: command.ExactArgs(),
		Long: `Run a node agent until it is interrupted. If the agent stops, its jobs continue for a while, and
a restarted agent adopts them.

On a machine without a server, the agent joins the cluster with a join token from
"ares node token create". The token contains the hash of the cluster's certificate authority, so
that the agent can verify the servers. The agent creates a key, gets a certificate, and renews
the certificate before it expires. The agent needs a new token only if the certificate expired
while the agent was stopped.`,
		Example: "  ares agent --server ares.example.com:9090 --join TOKEN",
		RunE: func(cmd *cobra.Command, _ []string) error {
			general, err := a.serverConfig(&serverFlags{config: n.file, level: n.level})
			if err != nil {
				return err
			}
			cfg, err := a.agentConfig(&n, &general)
			if err != nil {
				return err
			}
			server.TuneMemory()
			ag, err := agent.New(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			output.Printf(a.Out, "Node %s joins %s.\n", cfg.Node, strings.Join(cfg.Servers, ", "))
			a.announceDevices(ag)
			return ag.Run(cmd.Context())
		},
	}
	n.add(c)
	c.Flags().StringVar(&n.join, "join", "", "join token from \"ares node token create\"; needed while the node has no valid certificate (ARES_JOIN_TOKEN)")
	c.Flags().StringVar(&n.file, "config", "", "configuration file; the agent reads taints, isolation and log")
	c.Flags().StringVar(&n.level, "log-level", "", "debug, info, warn or error (LOG_LEVEL)")
	return c
}

func (a *commands) agentConfig(n *nodeFlags, general *server.Config) (agent.Config, error) {
	cfg, err := n.config(a.Dir(), general, a.Version, general.NewLog(a.Err))
	if err != nil {
		return cfg, err
	}
	cfg.Servers = a.Addresses()
	if cfg.TLS, err = a.TLSConfig(cfg.Servers); err != nil {
		return cfg, err
	}
	cfg.Join = cmp.Or(n.join, os.Getenv("ARES_JOIN_TOKEN"))
	if cfg.Join != "" || a.joined(cfg.Dir) {
		return cfg, nil // the agent authenticates with the node's own certificate
	}
	if cfg.TLS == nil && !command.OnThisMachine(cfg.Servers) {
		return cfg, exit.Usagef("%s is not on this machine: add --join TOKEN (create one with: ares node token create)", strings.Join(cfg.Servers, ", "))
	}
	cfg.Token, err = a.nodeToken(cfg.Servers)
	return cfg, err
}

// The method `joined` reports whether the agent that uses this directory has received a certificate.
func (a *commands) joined(dir string) bool {
	_, err := os.Stat(filepath.Join(agent.CertificateDir(dir), "node.crt"))
	return err == nil
}

// nodeToken returns the token with which an agent authenticates.
func (a *commands) nodeToken(servers []string) (string, error) {
	path := a.TokenFile
	if path == "" {
		if token := os.Getenv("ARES_TOKEN"); token != "" {
			return token, nil
		}
		path = os.Getenv("ARES_TOKEN_FILE")
	}
	if path == "" && a.IsTrusted(servers) {
		path = a.Dir() + "/" + server.NodeTokenFile
	}
	if path == "" {
		return "", exit.Usagef("the node has no credentials: add --join TOKEN (create one with: ares node token create), or --token-file with node.token of the server's data directory")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", ares.Errorf(ares.Unauthentic, "read the node token: %s", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// startDemoServer starts a private server for a demo. The server's sessions have the given TTL.
func (a *commands) startDemoServer(ctx context.Context, ttl time.Duration) (*demoServer, error) {
	dir, err := os.MkdirTemp("", "ares-demo-")
	if err != nil {
		return nil, err
	}
	cfg := server.Default()
	cfg.DataDir, cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = dir, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Sessions.TTLSeconds = int(ttl / time.Second)
	s, err := server.Start(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	st := &demoServer{}
	st.close = func() error {
		var errs []error
		for _, c := range []*client.Client{st.admin, st.node} {
			if c != nil {
				errs = append(errs, c.Close())
			}
		}
		s.Close()
		return errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	at := []string{s.Endpoints.GRPC}
	if st.admin, err = client.New(client.Options{Addresses: at, TokenFile: s.AdminToken}); err != nil {
		return nil, errors.Join(err, st.close())
	}
	if st.node, err = client.New(client.Options{Addresses: at, Token: s.NodeToken}); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}
