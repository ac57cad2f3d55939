// Package live helps tests that run real programs. It finds the programs and
// waits for their effects.
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

// Program is an executable that tests start.
type Program struct {
	env    string // the variable that names another executable
	path   string // default path: absolute, or relative to the root of the repository
	remedy string // the command that builds it
}

// Tests start these programs.
var (
	Ares       = Program{"ARES_TEST_BIN", "bin/ares", "make build"}
	Failpoints = Program{"ARES_TEST_FAILPOINTS", ".bin/failpoints/ares", "make failpoints"}
	Witness    = Program{"ARES_TEST_WITNESS", ".bin/witness", "make failpoints"}
	Etcd       = Program{"ARES_TEST_ETCD", ".bin/etcd", "make tools"}
	Etcdctl    = Program{"ARES_TEST_ETCDCTL", ".bin/etcdctl", "make tools"}
	Toxiproxy  = Program{"ARES_TEST_TOXIPROXY", ".bin/toxiproxy", "make tools"}
	VersityGW  = Program{"ARES_TEST_VERSITYGW", ".bin/versitygw", "make tools"}
	Redis      = Program{"ARES_TEST_REDIS", "/usr/bin/redis-server", "make needs"}
)

// Path finds the executable, and fails the test if the executable does not
// exist.
func (p Program) Path(t testing.TB) string {
	t.Helper()
	path := os.Getenv(p.env)
	if path == "" {
		path = p.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(Root(t), path)
		}
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		t.Fatalf("%v: run `%s` at the root of the repository, or name the program in %s", err, p.remedy, p.env)
	}
	return abs
}

// Root returns the root directory of the repository. It searches upwards from
// the test's package for a directory with a go.mod file.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no directory above the test has a go.mod")
		}
	}
}

// Await waits for a condition, and fails the test if it does not become true in
// time. The function `ok` also returns a string. It describes the current state
// for the failure message.
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

// AwaitCount waits until the count is reached. AwaitCount gives up only if the
// count does not grow for a while. It has no limit on the total time, because
// that depends on the machine.
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

// FreeAddr finds a free loopback address and reserves it until the test ends.
// The port is below the kernel's range for outgoing connections. It is
// therefore still free when a program restarts. A name in the abstract socket
// namespace reserves the address. Other tests then do not use it, even if they
// run in other processes.
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
			_ = held.Close() // used by another program that is not a test
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = held.Close() })
		return addr
	}
	t.Fatal("no free port was found among 1000")
	return ""
}
