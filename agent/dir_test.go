package agent

import (
	"log/slog"
	"path/filepath"
	"testing"
)

// TestDirectoryBecomesAbsolute checks that a relative directory is made absolute, because jobs start in another working
// directory.
func TestDirectoryBecomesAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	a, err := New(t.Context(), Config{
		Node: "n", Servers: []string{"127.0.0.1:1"}, Token: "t", Dir: "state", Mock: "t4-4", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(a.cfg.Dir) {
		t.Errorf("its directory is %q", a.cfg.Dir)
	}
}
