//go:build linux && !embed_supervisor

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrustSource checks that the supervisor is never built from a source that another user could have written.
func TestTrustSource(t *testing.T) {
	root := filepath.Join(t.TempDir(), "ares")
	source := filepath.Join(root, supervisorPackage)
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	mod := filepath.Join(root, "go.mod")
	for _, path := range []string{mod, filepath.Join(source, "main.go")} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, want string) {
		t.Helper()
		err := trustSource(root)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", what, err, want)
		}
	}
	check("own files", "")
	for path, mode := range map[string]os.FileMode{root: 0o755, mod: 0o644, source: 0o755} {
		if err := os.Chmod(path, mode|0o002); err != nil {
			t.Fatal(err)
		}
		check("everybody can write "+path, path+" can be written by other users")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		for _, path := range []string{root, mod, source} {
			if err := os.Chown(path, 12345, 0); err != nil {
				t.Fatal(err)
			}
			check("another user's "+path, path+" belongs to another user (12345)")
			if err := os.Chown(path, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Rename(mod, mod+".real"); err != nil {
		t.Fatal(err)
	}
	check("no go.mod", "no such file")
	if err := os.Symlink(mod+".real", mod); err != nil {
		t.Fatal(err)
	}
	check("a link as go.mod", "is a symbolic link")
}

func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		mode           os.FileMode
		uid, gid, self uint32
		want           bool
	}{
		{0o755, 1000, 1000, 1000, true},
		{0o775, 1000, 1000, 1000, true}, // the private group of the user
		{0o775, 1000, 100, 1000, false},
		{0o777, 1000, 1000, 1000, false},
		{0o755, 0, 0, 1000, true},
		{0o775, 0, 50, 1000, false},
		{0o755, 1001, 1001, 1000, false},
		{0o755, 1001, 1001, 0, false},
	} {
		if err := trusted(c.mode, c.uid, c.gid, c.self); (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
