package contexts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func write(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// TestReadRejects checks that a configuration which cannot be trusted is rejected, and that the error says what to do.
func TestReadRejects(t *testing.T) {
	good := "version: 1\ncontexts:\n- {name: a, servers: ['x:1']}\n"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"world-readable":   {good, 0o644, "run: chmod 600 "},
		"group-readable":   {good, 0o640, "run: chmod 600 "},
		"newer":            {"version: 2\nclusters: {}\n", 0o600, "has version 2, and this program knows only version 1: update ares"},
		"broken":           {"version: [\n", 0o600, "correct the file, or move it away"},
		"misspelled":       {"version: 1\ncontext: []\n", 0o600, "line 2: field context not found"},
		"no servers":       {"version: 1\ncontexts: [{name: a}]\n", 0o600, "context a has no servers"},
		"twice":            {"version: 1\ncontexts: [{name: a, servers: ['x:1']}, {name: a, servers: ['x:1']}]\n", 0o600, "the name of another"},
		"escape sequence":  {"version: 1\ncontexts: [{name: \"a\\e[31m\", servers: ['x:1']}]\n", 0o600, "a name that is not allowed"},
		"nothing":          {"version: 1\ncontexts: [null]\n", 0o600, "has no name"},
		"current is wrong": {"version: 1\ncurrent: b\n", 0o600, `its current context "b" does not exist`},
	} {
		if _, err := Read(write(t, c.text, c.mode)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if f, err := Read(write(t, "", 0o600)); err != nil || len(f.Contexts) != 0 {
		t.Errorf("an empty file is %v, %v", f, err)
	}
	if f, err := Read(filepath.Join(t.TempDir(), "none", "config.yaml")); err != nil || len(f.Contexts) != 0 {
		t.Errorf("no file is %v, %v", f, err)
	}
}

// TestUpdatesAreNotLost checks that many changes at the same time are all in the file, which only its owner can read.
func TestUpdatesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ares", "config.yaml")
	const writers = 16
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			err := Update(path, func(f *File) error {
				f.Contexts = append(f.Contexts, &Context{Name: fmt.Sprintf("c%d", i), Servers: []string{"x:1"}})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := Read(path)
	if err != nil || len(f.Contexts) != writers {
		t.Errorf("the file has %d contexts of %d, %v", len(f.Contexts), writers, err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", st.Mode(), err)
	}
	if err := Update(path, func(*File) error { return fmt.Errorf("no") }); err == nil {
		t.Error("a change that failed was written")
	}
}

func TestServes(t *testing.T) {
	c := &Context{Servers: []string{"a:1", "b:1"}}
	for list, want := range map[string]bool{"a:1": true, "a:1,b:1": true, " b:1": true, "a:2": false, "a:1,c:1": false, "A:1": false} {
		if c.Serves(strings.Split(list, ",")) != want {
			t.Errorf("%s: %t", list, !want)
		}
	}
	if c.Serves(nil) {
		t.Error("no address is one of the context")
	}
	l := &Login{IDToken: "id-secret", RefreshToken: "refresh-secret", ExpiresAt: time.Unix(0, 0)}
	if text := fmt.Sprint(l, c); strings.Contains(text, "secret") {
		t.Errorf("%s has the token", text)
	}
}
