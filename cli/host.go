package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// hostCommands are the commands that run or inspect a server of their own.
func (a *app) hostCommands() []*cobra.Command {
	return []*cobra.Command{
		a.upCommand(), a.serverCommand(), a.agentCommand(), a.demoCommand(), a.doctorCommand(), a.debugCommand(),
		a.backupCommand(), a.restoreCommand(),
	}
}

// serverFlags are the flags of every command that starts a server. What is
// given wins over the environment, and that over the file.
type serverFlags struct {
	config, http, grpc, metrics, advertise, record, level string
}

func (f *serverFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "", "configuration file (see ares config default, and docs/configuration.md)")
	c.Flags().StringVar(&f.http, "http-addr", "", "where to serve REST (default 127.0.0.1:8080)")
	c.Flags().StringVar(&f.grpc, "grpc-addr", "", "where to serve gRPC (default 127.0.0.1:9090)")
	c.Flags().StringVar(&f.metrics, "metrics-addr", "", "where to serve /metrics (default 127.0.0.1:9091)")
	c.Flags().StringVar(&f.advertise, "advertise-addr", "", "where agents and other servers reach gRPC, HOST:PORT (ARES_ADVERTISE_ADDR; default --grpc-addr)")
	c.Flags().StringVar(&f.record, "record", "", "record what is seen and decided into files of this directory, for ares sim (ARES_RECORDING_DIR)")
	c.Flags().StringVar(&f.level, "log-level", "", "debug, info, warn or error (LOG_LEVEL)")
}

func (a *app) serverConfig(f *serverFlags) (server.Config, error) {
	cfg, err := server.Load(f.config, os.Environ())
	if err != nil {
		return cfg, err
	}
	for to, given := range map[*string]string{
		&cfg.DataDir: a.dataDir, &cfg.HTTPAddr: f.http, &cfg.GRPCAddr: f.grpc, &cfg.MetricsAddr: f.metrics, &cfg.AdvertiseAddr: f.advertise, &cfg.Log.Level: f.level,
		&cfg.Recording.Dir: f.record,
	} {
		if given != "" {
			*to = given
		}
	}
	server.Version = Version
	return cfg, cfg.Check()
}

func (a *app) serverCommand() *cobra.Command {
	var f serverFlags
	c := &cobra.Command{
		Use: "server", Short: "Run a server, without a node of its own", Args: exactly(),
		Long: "Runs a server until it is interrupted. With etcd.endpoints in the configuration, or\nETCD_ENDPOINTS, several servers share one store.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.serverConfig(&f)
			if err != nil {
				return err
			}
			server.TuneMemory()
			return server.Run(cmd.Context(), cfg, cfg.NewLog(a.err), func(s *server.Server) {
				a.announce(s)
				if s.Endpoints.CA == "" {
					say(a.out, "  join a node      ares agent --server %s --token-file %s\n", s.Endpoints.GRPC, cfg.DataDir+"/"+server.NodeTokenFile)
				}
			})
		},
	}
	f.add(c)
	return c
}

// announce says where a server is.
func (a *app) announce(s *server.Server) {
	say(a.out, "Ares %s is up.\n", Version)
	say(a.out, "  REST             %s\n", s.URL(s.Endpoints.HTTP))
	say(a.out, "  gRPC             %s\n", s.Endpoints.GRPC)
	say(a.out, "  metrics          %s/metrics\n", s.URL(s.Endpoints.Metrics))
	say(a.out, "  admin token      %s\n", s.AdminToken)
	if s.Endpoints.CA != "" {
		say(a.out, "  authority        %s (give it to clients elsewhere: --tls-ca FILE)\n", filepath.Join(filepath.Dir(s.AdminToken), s.Endpoints.CA))
		say(a.out, "  join a node      ares node token create, then on the node: ares agent --server %s --join TOKEN\n", s.Advertised())
	}
}

func (a *app) upCommand() *cobra.Command {
	var f serverFlags
	var n nodeFlags
	c := &cobra.Command{
		Use: "up", Short: "Run a whole Ares on this machine: server, store and a node", Args: exactly(),
		Long: "Runs a server with an embedded store and a node agent until it is interrupted. The\ndata stays; jobs that run go on under their supervisors for a while, and the next\n\"ares up\" takes them up again.",
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

func (a *app) up(ctx context.Context, cfg server.Config, n *nodeFlags) error {
	log := cfg.NewLog(a.err)
	node, err := n.config(cfg.DataDir, &cfg, log)
	if err != nil {
		return err
	}
	node.RunImages = true
	server.TuneMemory()
	return server.Up(ctx, cfg, node, log, func(s *server.Server, ag *agent.Agent) {
		a.announce(s)
		say(a.out, "  devices          %s\n", clean(devices(ag.Node())))
		say(a.out, "  isolation        %s\n", clean(ag.Node().Isolation))
		try := program() + strings.TrimPrefix(a.self(cfg.DataDir), "ares")
		say(a.out, "\nTry, in another terminal:\n\n  %s job submit --name hello -- echo hello\n\n", try)
	})
}

// self is how to call this program in another terminal, where neither this
// one's directory nor its environment count, so that it finds the data
// directory.
func (a *app) self(dir string) string {
	if dir == server.DefaultDataDir() {
		return "ares"
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	return "ares --data-dir " + commandLine([]string{dir})
}

// devices says what a node has, and whether it is real.
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
	runImages           bool
	isolation           string
	file, level, join   string
}

func (n *nodeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&n.node, "node", "", "name of this node (WORKER_ID; default the host's name)")
	c.Flags().StringVar(&n.address, "address", "", "where ranks on other nodes reach this one (default 127.0.0.1)")
	c.Flags().StringArrayVar(&n.labels, "node-label", nil, "label of this node, NAME=VALUE; may be repeated")
	c.Flags().StringArrayVar(&n.taints, "taint", nil, "keep jobs off this node that do not tolerate it, KEY=VALUE:NoSchedule or :PreferNoSchedule;\nmay be repeated (ARES_TAINTS)")
	c.Flags().StringVar(&n.isolation, "isolation", "", "whom jobs run as: tenant, user, none or auto (ARES_ISOLATION_MODE; see docs/isolation.md)")
	must(c.RegisterFlagCompletionFunc("isolation", cobra.FixedCompletions([]string{agent.IsolateAuto, agent.IsolateTenant, agent.IsolateUser, agent.IsolateNone}, cobra.ShellCompDirectiveNoFileComp)))
	c.Flags().StringVar(&n.mock, "mock", "", "simulate the devices of "+strings.Join(gpu.Profiles(), ", ")+"; or off")
	must(c.RegisterFlagCompletionFunc("mock", cobra.FixedCompletions(append(gpu.Profiles(), gpu.Off), cobra.ShellCompDirectiveNoFileComp)))
}

// config of an agent; general is what file and environment say.
func (n *nodeFlags) config(dataDir string, general *server.Config, log *slog.Logger) (agent.Config, error) {
	cfg := agent.Config{
		Node: firstOf(n.node, os.Getenv("WORKER_ID")), Dir: dataDir + "/agent", Address: n.address, Mock: n.mock,
		RunImages: n.runImages, Isolation: general.Isolation, Version: Version, Log: log,
	}
	if n.isolation != "" {
		cfg.Isolation.Mode = n.isolation
		var p ares.Problems // before anything is started
		if cfg.Isolation.Check(&p); len(p) > 0 {
			return cfg, p.Err()
		}
	}
	if cfg.Node == "" {
		host, err := os.Hostname()
		if err != nil || !ares.ValidName(host) {
			return cfg, usagef("the host's name %q cannot name a node: choose one with --node", host)
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
			return cfg, usagef("--taint: %s", err)
		}
		cfg.Taints = append(cfg.Taints, t)
	}
	return cfg, assign(&cfg.Labels, "--node-label", n.labels)
}

func (a *app) agentCommand() *cobra.Command {
	var n nodeFlags
	c := &cobra.Command{
		Use: "agent", Short: "Run a node agent that joins a server", Args: exactly(),
		Long: `Runs a node agent until it is interrupted. Its processes go on under their
supervisors for a while, and a restarted agent takes them up again.

On another machine than the server's an agent joins by a token of "ares node token
create". It carries the hash of the servers' authority, so nothing else is needed to
know the right servers. The agent makes a key, is given a certificate for it, and
renews that by itself: the token is needed once, or again when the certificate has
ended because the agent was away for too long.`,
		Example: "  ares agent --server ares.example.com:9090 --join ares-join.fvk...",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.agentConfig(&n)
			if err != nil {
				return err
			}
			ag, err := agent.New(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			say(a.out, "Node %s joins %s.\n  devices          %s\n  isolation        %s\n", cfg.Node, strings.Join(cfg.Servers, ", "), clean(devices(ag.Node())), clean(ag.Node().Isolation))
			return ag.Run(cmd.Context())
		},
	}
	n.add(c)
	c.Flags().BoolVar(&n.runImages, "run-images", false, "run the command of a job that names an image directly on this host")
	c.Flags().StringVar(&n.join, "join", "", "join token of ares node token create; needed while the node has no good certificate (ARES_JOIN_TOKEN)")
	c.Flags().StringVar(&n.file, "config", "", "configuration file; an agent reads taints, isolation and log of it")
	c.Flags().StringVar(&n.level, "log-level", "", "debug, info, warn or error (LOG_LEVEL)")
	return c
}

func (a *app) agentConfig(n *nodeFlags) (agent.Config, error) {
	general, err := a.serverConfig(&serverFlags{config: n.file, level: n.level})
	if err != nil {
		return agent.Config{}, err
	}
	cfg, err := n.config(a.dir(), &general, general.NewLog(a.err))
	if err != nil {
		return cfg, err
	}
	cfg.Servers = a.addresses()
	if cfg.TLS, err = a.tlsConfig(cfg.Servers); err != nil {
		return cfg, err
	}
	cfg.Join = firstOf(n.join, os.Getenv("ARES_JOIN_TOKEN"))
	if cfg.Join != "" || a.joined(cfg.Dir) {
		return cfg, nil // the node's own certificate speaks for it
	}
	if cfg.TLS == nil && !onThisMachine(cfg.Servers) {
		return cfg, usagef("%s is not on this machine: let this node join with --join TOKEN (ares node token create makes one)", strings.Join(cfg.Servers, ", "))
	}
	cfg.Token, err = a.nodeToken(cfg.Servers)
	return cfg, err
}

// joined says whether an agent with that directory has had a certificate.
func (a *app) joined(dir string) bool {
	_, err := os.Stat(filepath.Join(agent.CertificateDir(dir), "node.crt"))
	return err == nil
}

// nodeToken finds the token of an agent, as connect does that of people.
func (a *app) nodeToken(servers []string) (string, error) {
	path := a.tokenFile
	if path == "" {
		if token := os.Getenv("ARES_TOKEN"); token != "" {
			return token, nil
		}
		path = os.Getenv("ARES_TOKEN_FILE")
	}
	if path == "" && a.trusted(servers) {
		path = a.dir() + "/" + server.NodeTokenFile
	}
	if path == "" {
		return "", usagef("let this node join with --join TOKEN (ares node token create makes one), or give the node token with --token-file: it is node.token in the server's data directory")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", ares.Errorf(ares.Unauthentic, "read the node token: %s", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// openStage starts a private Ares for a demo, with sessions that last ttl.
func (a *app) openStage(ctx context.Context, ttl time.Duration) (*stage, error) {
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
	st := &stage{}
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
