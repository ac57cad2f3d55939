package server_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/ares-scheduler/ares/server"
)

// A stopped server takes server.json away, so that nobody looks for it at a
// dead port, but not the file of another.
func TestCloseRemovesItsEndpoints(t *testing.T) {
	cfg := server.Default()
	cfg.DataDir = t.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	file := filepath.Join(cfg.DataDir, server.EndpointsFile)
	const others = `{"http":"127.0.0.1:1","grpc":"127.0.0.1:2","metrics":"127.0.0.1:3"}`
	for _, replaced := range []bool{false, true} {
		s, err := server.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = os.Stat(file); err != nil {
			t.Error(err)
		}
		if replaced {
			if err = os.WriteFile(file, []byte(others), 0o600); err != nil {
				t.Error(err)
			}
		}
		s.Close()
		data, err := os.ReadFile(file)
		if !replaced && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file is still there: %s %v", data, err)
		}
		if replaced && string(data) != others {
			t.Errorf("the file of another server is now %q, %v", data, err)
		}
	}
}
