// Package live is for tests against real programs: it finds the programs and
// waits for what they do.
package live

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Program finds an executable that a test starts: the one that the variable
// env names, or otherwise the one at a path. The remedy is the command that
// makes it.
func Program(t testing.TB, env, otherwise, remedy string) string {
	t.Helper()
	path := os.Getenv(env)
	if path == "" {
		path = otherwise
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		t.Fatalf("%v: run `%s` at the root of the repository, or name the program in %s", err, remedy, env)
	}
	return abs
}

// Await waits for a condition, and fails the test when it does not come. What
// ok returns beside is what was seen instead.
func Await(t testing.TB, atMost time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(atMost)
	for {
		done, seen := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %s", atMost, what, seen)
		}
		<-tick.C
	}
}

// FreeAddr finds a loopback address that nobody listens on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
