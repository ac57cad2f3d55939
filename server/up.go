package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/credentials"

	"github.com/ares-scheduler/ares/agent"
)

// Run starts a server and waits until ctx ends or a part fails. ready is
// called once it serves.
func Run(ctx context.Context, cfg Config, log *slog.Logger, ready func(*Server)) error {
	s, err := Start(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer s.Close()
	ready(s)
	return s.wait(ctx)
}

func (s *Server) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	case err := <-s.Store.Err():
		return fmt.Errorf("the embedded store failed: %w", err)
	}
}

// Up runs a server with a node agent beside it, until ctx ends or either
// fails. ready is called once both are there.
func Up(ctx context.Context, cfg Config, node agent.Config, log *slog.Logger, ready func(*Server, *agent.Agent)) error {
	s, err := Start(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer s.Close()
	node.Servers = []string{s.Endpoints.GRPC}
	node.Token = s.NodeToken
	node.Dir = filepath.Join(cfg.DataDir, "agent")
	node.Version, node.Log = Version, log
	if cfg.TLS.CertFile != "" {
		peers, err := cfg.TLS.client()
		if err != nil {
			return err
		}
		node.TLS = credentials.NewTLS(peers)
	}
	a, err := agent.New(ctx, node)
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	s.part("agent", func() error {
		err := a.Run(life)
		ended <- err
		return nil
	})
	defer func() { stop() }()
	ready(s, a)
	waited := make(chan error, 1)
	s.part("wait", func() error {
		waited <- s.wait(life)
		return nil
	})
	select {
	case err = <-ended:
	case err = <-waited:
	}
	stop()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// AgentCredentials makes the TLS of an agent from the servers' CA, nil for
// plaintext.
func AgentCredentials(caFile string) (credentials.TransportCredentials, error) {
	if caFile == "" {
		return nil, nil
	}
	pool, err := readCA(caFile)
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}), nil
}

// NodeName is this machine's default name in the fleet.
func NodeName() string {
	if id := os.Getenv("WORKER_ID"); id != "" {
		return id
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "node"
	}
	host, _, _ = strings.Cut(host, ".")
	return host
}
