package server

import (
	"log/slog"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// TestAServerSeesTheEndOfATenant deletes a tenant behind the server's back, as another server would. The server must end the
// tenant's tokens when it sees the deletion, without waiting for its next read of the tokens.
func TestAServerSeesTheEndOfATenant(t *testing.T) {
	cfg := Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	red, err := s.Store.CreateTenant(t.Context(), ares.Tenant{ID: "red", Name: "red", Limits: ares.NoLimits(), Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	token, hash := auth.NewToken()
	if err = s.Store.PutToken(t.Context(), store.Token{Name: "red/ci", Hash: hash, Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: "red"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err = s.auth.Check(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	ended := s.auth.Ended()
	if err = s.Store.DeleteTenant(t.Context(), "red", red.Revision); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the server did not see the deletion")
	}
	if _, err = s.auth.Check(t.Context(), token); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("the token of a deleted tenant: %v", err)
	}
}
