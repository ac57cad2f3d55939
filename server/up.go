package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
)

// Run starts a server and waits until ctx ends or a part of the server fails. As soon as the server accepts
// requests, Run calls the function in the parameter `ready`.
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

// Up runs a server and a node agent until ctx ends or either of them fails. As soon as the server and the agent are
// running, Up calls the function in the parameter `ready`.
func Up(ctx context.Context, cfg Config, node agent.Config, log *slog.Logger, ready func(*Server, *agent.Agent)) error {
	if cfg.isHub() {
		return ares.Errorf(ares.Invalid, "role: a hub has no nodes, so it cannot run with a node agent: use `ares server --role global`")
	}
	s, err := Start(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer s.Close()
	s.withAgent.Store(true)
	node.Servers = []string{Local(s.Endpoints.GRPC)}
	node.Token = s.NodeToken
	node.Dir = cmp.Or(node.Dir, filepath.Join(cfg.DataDir, "agent"))
	node.Version, node.Log = Version, log
	peers, err := s.peers()
	if err != nil {
		return err
	}
	if node.TLS = peers(s.Endpoints.GRPC); s.cfg.TLS.CertFile != "" && len(cfg.Hosts) > 0 {
		node.TLS = node.TLS.Clone()
		node.TLS.ServerName = cfg.Hosts[0] // the agent dials an address that the certificate may not contain
	}
	a, err := agent.New(ctx, node)
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	s.runPart("agent", func() error {
		ended <- a.Run(life)
		return nil
	})
	s.awaitNode(life, node.Node)
	ready(s, a)
	waited := make(chan error, 1)
	s.runPart("wait", func() error {
		waited <- s.wait(life)
		return nil
	})
	select {
	case err = <-ended:
		stop()
	case err = <-waited:
		stop()
		<-ended // the agent closes its session while the server still answers
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// awaitNode waits briefly for the node's session. The node is then listed when Ares is reported as up.
func (s *Server) awaitNode(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		next := s.View.Revision() + 1
		if n := s.View.Node(node); n != nil && n.Session != nil {
			return
		}
		if s.View.WaitFor(ctx, next) != nil {
			return // the server is up anyway, and the log says why the node is missing
		}
	}
}
