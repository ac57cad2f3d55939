package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/store"
)

// Etcd is an external etcd process that belongs to one test.
type Etcd struct {
	Endpoints []string
	cmd       *exec.Cmd
	drained   chan struct{} // closed when its output has ended
}

// Embedded opens a store with an etcd inside this process.
func Embedded(tb testing.TB) *store.Store {
	tb.Helper()
	return open(tb, store.Config{Dir: tb.TempDir(), Timeout: time.Minute}) // nothing kills this etcd, and a disk may be slow
}

// External starts an etcd process. If the etcd binary is missing, the test fails. A test against
// the embedded etcd proves nothing about an external one.
func External(tb testing.TB) *Etcd {
	tb.Helper()
	return ExternalWith(tb, "http")
}

// ExternalWith is like External, but uses another URL scheme and additional flags.
func ExternalWith(tb testing.TB, scheme string, flags ...string) *Etcd {
	tb.Helper()
	return startOn(tb, tb.TempDir(), scheme, flags...)
}

// ExternalIn is like External, but uses a data directory of the test, which may have the data of an earlier process.
func ExternalIn(tb testing.TB, dir string) *Etcd {
	tb.Helper()
	return startOn(tb, dir, "http")
}

// startOn starts an etcd process with the given data directory. The function tries again if
// another process has taken a chosen port in the meantime. If the port is taken, etcd has not
// written to the directory yet.
func startOn(tb testing.TB, dir, scheme string, flags ...string) *Etcd {
	tb.Helper()
	binary := etcdBinary(tb)
	var last error
	for range 5 {
		e, err := start(binary, dir, scheme, flags...)
		if err == nil {
			tb.Cleanup(e.Kill)
			return e
		}
		last = err
	}
	tb.Fatalf("start %s: %v", binary, last)
	return nil
}

// RestoredMember starts an etcd process whose data directory is restored from a prepared backup.
func RestoredMember(tb testing.TB, file string) *Etcd {
	tb.Helper()
	const peer = "http://127.0.0.1:1" // overwritten by start; a single member contacts no peer
	dir := filepath.Join(tb.TempDir(), "member")
	if err := store.RestoreMember(file, store.Member{Dir: dir, Name: "test", InitialCluster: "test=" + peer, PeerURLs: []string{peer}, Token: "again"}); err != nil {
		tb.Fatal(err)
	}
	return startOn(tb, dir, "http")
}

// Open connects a new store to the etcd, with a timeout for slow machines.
func (e *Etcd) Open(tb testing.TB) *store.Store {
	tb.Helper()
	return open(tb, store.Config{Endpoints: e.Endpoints, Timeout: time.Minute})
}

// Client returns an etcd client that bypasses the store. Tests use this client to write
// records that only a fault or another version of Ares would write.
func (e *Etcd) Client(tb testing.TB) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Freeze stops the process until `thaw` is called, or until the test ends.
func (e *Etcd) Freeze(tb testing.TB) (thaw func()) {
	tb.Helper()
	err := e.cmd.Process.Signal(syscall.SIGSTOP)
	if err == nil { // the signal takes effect later
		err = unix.Waitid(unix.P_PID, e.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	if err != nil {
		tb.Fatal(err)
	}
	thaw = func() { _ = e.cmd.Process.Signal(syscall.SIGCONT) } // it may have been killed
	tb.Cleanup(thaw)
	return thaw
}

// Kill kills the process immediately and waits until it has ended.
func (e *Etcd) Kill() {
	if e.cmd.ProcessState != nil {
		return
	}
	_ = e.cmd.Process.Kill() // it may have ended by itself
	<-e.drained
	_ = e.cmd.Wait() // it was killed, so an error is expected
}

func open(tb testing.TB, cfg store.Config) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("open store: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close store: %v", err)
		}
	})
	return s
}

func etcdBinary(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ARES_TEST_ETCD")
	if path == "" {
		dir, err := os.Getwd()
		if err != nil {
			tb.Fatal(err)
		}
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				break
			}
		}
		path = filepath.Join(dir, ".bin", "etcd")
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("this test needs a real etcd: run `make $PWD/.bin/etcd` in the repository's root, or name one in ARES_TEST_ETCD (%v)", err)
	}
	return path
}

// EtcdFlags returns the flags of an etcd member. The parameter `initial` is the value of etcd's
// --initial-cluster.
func EtcdFlags(name, dir, client, peer, initial string) []string {
	return []string{
		"--name", name, "--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", initial,
	}
}

// This function runs etcd on free loopback ports and returns when etcd is ready.
func start(binary, dir, scheme string, flags ...string) (*Etcd, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	client, peer := scheme+"://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	flags = append([]string{"--unsafe-no-fsync", "--logger", "zap", "--log-outputs", "stderr"}, flags...)
	cmd := exec.Command(binary, append(EtcdFlags("test", dir, client, peer, "test="+peer), flags...)...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var said []string
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready to serve client requests") {
			e := &Etcd{Endpoints: []string{client}, cmd: cmd, drained: make(chan struct{})}
			go func() {
				defer close(e.drained)
				_, _ = io.Copy(io.Discard, out) // ends with the process
			}()
			return e, nil
		}
		said = append(said, lines.Text())
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	return nil, fmt.Errorf("it ended: %w\n%s", err, strings.Join(said[max(0, len(said)-5):], "\n"))
}

func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}
