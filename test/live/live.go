// Package live is for tests against real programs: it finds the programs and
// waits for what they do.
package live

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
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

// AwaitCount waits until as many as are wanted are there. It gives up when for a while
// none comes: how long all of them take is the machine's affair.
func AwaitCount(t testing.TB, none time.Duration, what string, want int, count func() int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	most, since := -1, time.Now()
	for {
		switch n := count(); {
		case n >= want:
			return
		case n > most:
			most, since = n, time.Now()
		case time.Since(since) > none:
			t.Fatalf("%s: %d of %d, and none more within %s", what, n, want, none)
		}
		<-tick.C
	}
}

// FreeAddr finds a loopback address that nobody listens on. It is this test's until
// the test ends: its port lies below those that the kernel gives to outgoing
// connections, so a program that is restarted finds it free again, and a name in the
// abstract namespace keeps other tests from it, those of other processes too.
func FreeAddr(t testing.TB) string {
	t.Helper()
	var lc net.ListenConfig
	for range 1000 {
		port := 10_000 + rand.N(20_000)
		held, err := lc.Listen(t.Context(), "unix", fmt.Sprintf("@ares-test-port-%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := lc.Listen(t.Context(), "tcp", addr)
		if err != nil {
			_ = held.Close() // somebody else's, who is no test
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = held.Close() })
		return addr
	}
	t.Fatal("no free port was found among 1000")
	return ""
}
