package historytest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a real PostgreSQL server for one test, on a free loopback port. The PostgreSQL server can be killed and
// started again.
type Postgres struct {
	URL string // of its database

	tb   testing.TB
	bin  string
	dir  string
	host string
	port int
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	log  *bytes.Buffer
}

// StartPostgres starts a PostgreSQL server that stops when the test ends. The test fails if PostgreSQL is missing.
// PostgreSQL must be installed from Debian's package postgresql or be in PATH.
func StartPostgres(tb testing.TB) *Postgres {
	tb.Helper()
	// The random loopback address avoids port conflicts with other tests, even while this server is
	// down.
	return StartPostgresAt(tb, fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
}

// StartPostgresAt starts a PostgreSQL server on the given address. Only this test may use that
// address, because every connection to it has full access.
func StartPostgresAt(tb testing.TB, host string) *Postgres {
	tb.Helper()
	dir, err := os.MkdirTemp("", "ares-postgres-") //nolint:usetesting // a socket's path must be short
	if err != nil {
		tb.Fatal(err)
	}
	p := &Postgres{tb: tb, bin: postgresBin(tb), dir: dir, host: host, port: freePort(tb, host)}
	tb.Cleanup(func() {
		p.Kill()
		if bad := os.RemoveAll(dir); bad != nil {
			tb.Error(bad)
		}
	})
	if err = os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err = os.Mkdir(data, 0o700); err != nil {
		tb.Fatal(err)
	}
	if who := unprivileged(); who != nil {
		for _, d := range []string{dir, data} {
			if err = os.Chown(d, int(who.Uid), int(who.Gid)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	out, err := p.command("initdb", "-D", data, "-U", "ares", "--auth=trust", "-E", "UTF8", "--no-sync").CombinedOutput()
	if err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	if err = os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("host all all all trust\n"), 0o644); err != nil {
		tb.Fatal(err)
	}
	p.URL = (&url.URL{Scheme: "postgres", User: url.User("ares"), Host: net.JoinHostPort(host, strconv.Itoa(p.port)), Path: "/postgres", RawQuery: "sslmode=disable"}).String()
	p.Start()
	return p
}

// postgresBin finds the directory of PostgreSQL's programs.
func postgresBin(tb testing.TB) string {
	tb.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		tb.Fatal("there is no PostgreSQL: install the package postgresql (tools/needs postgres does)")
	}
	return filepath.Dir(found[len(found)-1])
}

// PostgreSQL refuses to run as root. If the test runs as root, the function `unprivileged`
// returns the user that runs the server.
func unprivileged() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534} // the user nobody
}

func freePort(tb testing.TB, host string) int {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.Env = p.dir, []string{"LC_ALL=C.UTF-8", "TZ=UTC", "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: unprivileged(), Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Start starts the server on its existing data, and waits until it answers.
func (p *Postgres) Start() {
	p.tb.Helper()
	p.cmd = p.command("postgres", "-D", filepath.Join(p.dir, "data"), "-p", strconv.Itoa(p.port), "-h", p.host, "-k", p.dir,
		"-c", "shared_buffers=32MB", "-c", "max_connections=50", "-c", "fsync=off") // the kernel still has the writes of a killed process
	p.log, p.done = &bytes.Buffer{}, make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		p.tb.Fatalf("start postgres: %v", err)
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait()
	}(p.cmd, p.done)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, p.URL)
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		select {
		case <-tick.C:
		case <-p.done:
			p.tb.Fatalf("postgres ended: %s", p.log)
		case <-ctx.Done():
			p.tb.Fatalf("postgres does not answer: %v", err)
		}
	}
}

// Kill ends the PostgreSQL server abruptly, as a crash of the machine would.
func (p *Postgres) Kill() {
	if p.cmd == nil {
		return
	}
	children := p.children()
	_ = p.cmd.Process.Kill()
	<-p.done
	for _, pid := range children { // they would end by themselves, but later
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.cmd = nil
	// A new server must not find locks that old server processes still hold.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, pid := range children {
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			<-tick.C // there is no notification when the child of another process ends
		}
	}
}

func (p *Postgres) children() []int {
	pid := p.cmd.Process.Pid
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var out []int
	for f := range strings.FieldsSeq(string(data)) {
		if n, err := strconv.Atoi(f); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(data, []byte(") Z "))
}

// Database creates an empty database and returns its URL.
func (p *Postgres) Database(tb testing.TB, name string) string {
	tb.Helper()
	ctx := tb.Context()
	conn, err := pgx.Connect(ctx, p.URL)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		tb.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}
