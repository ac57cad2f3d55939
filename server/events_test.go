package server_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// TestEventsResumeOverARestart checks that a watch can start from a revision before the server's restart.
func TestEventsResumeOverARestart(t *testing.T) {
	cfg := server.Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := func() (*server.Server, *client.Client) {
		s, err := server.Start(ctx, cfg, log)
		if err != nil {
			t.Fatal(err)
		}
		token, err := os.ReadFile(s.AdminToken)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(client.Options{Addresses: []string{s.Endpoints.GRPC}, Token: strings.TrimSpace(string(token))})
		if err != nil {
			t.Fatal(err)
		}
		return s, c
	}
	s, c := start()
	list, err := c.Jobs(ctx, &apipb.ListJobsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := c.Submit(ctx, &apipb.JobSpec{Name: "before", Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(ctx, sent.JobId); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	s.Close()
	s, c = start()
	defer s.Close()
	defer func() { _ = c.Close() }()
	var states []string
	for ev, err := range c.WatchEvents(ctx, &apipb.WatchEventsRequest{Revision: list.Revision}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.JobId == sent.JobId {
			states = append(states, ev.State)
		}
		if ev.State == "cancelled" {
			break
		}
	}
	if got := strings.Join(states, " "); got != "pending cancelled" {
		t.Errorf("the stream told %q", got)
	}
}
