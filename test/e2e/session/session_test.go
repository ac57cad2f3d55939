// Package session tests sessions of users with jobs on several servers and nodes, and what happens to them when something dies. The
// processes are real.
package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// If this variable is set, the test binary acts as a job that listens on the loopback interface, and sends back what it receives. The value
// is the file for its port.
const echoEnv = "ARES_TEST_ECHO"

func TestMain(m *testing.M) {
	if file := os.Getenv(echoEnv); file != "" {
		beEcho(file)
		return
	}
	if os.Getenv(countEnv) != "" {
		beCounter()
	}
	os.Exit(m.Run())
}

func beEcho(file string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(file+".new", []byte(strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A stage is a cluster of two servers with one store. The node's agent is connected to the second server.
type stage struct {
	*cluster.Cluster
	t         *testing.T
	agent     *cluster.Process
	far, near *client.Client // of the server without the agent, and of the other one
}

func newStage(t *testing.T, opts ...cluster.Option) *stage {
	t.Helper()
	s := &stage{t: t, Cluster: cluster.Start(t, append(opts, cluster.Etcd(1), cluster.Servers(2))...)}
	s.far, s.near = s.Client(s.Servers[0]), s.Client(s.Servers[1])
	s.agent = s.StartAgent("node-1", s.Servers[1])
	s.AwaitOnline("node-1")
	return s
}

// The method `runs` submits a job, and waits until it runs.
func (s *stage) runs(name string, env map[string]string, command ...string) string {
	s.t.Helper()
	answer, err := s.near.Submit(s.t.Context(), &apipb.JobSpec{RequestId: name, Name: name, Command: command, Environment: env, LostAfterSeconds: 300})
	if err != nil {
		s.t.Fatal(err)
	}
	id := answer.GetJobId()
	live.Await(s.t, cluster.Patience, name+" to run", func() (bool, string) {
		j, err := s.near.Job(s.t.Context(), id)
		return j.GetState() == string(ares.Running), fmt.Sprint(j.GetState(), err)
	})
	return id
}

// A session is a command beside a job, which has printed its PID.
type running struct {
	pid   int
	ended chan error
	input *io.PipeWriter
}

// The method `begin` begins a session that runs a shell script. The script's first line of output is its PID.
func (s *stage) begin(c *client.Client, id, script string) *running {
	s.t.Helper()
	in, input := io.Pipe()
	out, output := io.Pipe()
	x := &running{ended: make(chan error, 1), input: input}
	go func() {
		_, err := c.Exec(s.t.Context(), id, client.ExecOptions{
			Argv: []string{"sh", "-c", "echo $$; " + script}, Input: in, Output: output, Errors: io.Discard,
		})
		_ = output.CloseWithError(io.EOF)
		x.ended <- err
	}()
	var line []byte
	for b := make([]byte, 1); !bytes.Contains(line, []byte("\n")); line = append(line, b...) {
		if _, err := out.Read(b); err != nil {
			s.t.Fatalf("the session ended: %v, %v", err, <-x.ended)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	x.pid, _ = strconv.Atoi(strings.TrimSpace(string(line)))
	if !cluster.Alive(x.pid) {
		s.t.Fatalf("pid %q is not alive", line)
	}
	return x
}

// The method `gone` waits until the process of a session has ended, and returns what the user is told.
func (s *stage) gone(x *running) error {
	s.t.Helper()
	var err error
	select {
	case err = <-x.ended:
	case <-time.After(cluster.Patience):
		s.t.Fatal("the user is not told")
	}
	live.Await(s.t, cluster.Patience, "the command to end", func() (bool, string) { return !cluster.Alive(x.pid), cluster.State(x.pid) })
	return err
}

const stubborn = `trap "" HUP TERM INT; while :; do sleep 0.1; done`

// TestThroughAnotherServer uses a server to which the node is not connected.
func TestThroughAnotherServer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.runs("job", nil, "sleep", "1000")
	for name, c := range map[string]*client.Client{"far": s.far, "near": s.near} {
		var out, errs bytes.Buffer
		res, err := c.Exec(t.Context(), id, client.ExecOptions{
			Argv: []string{"sh", "-c", "cat; echo bad >&2; exit 7"}, Input: strings.NewReader("typed"), Output: &out, Errors: &errs,
		})
		if err != nil || res.ExitCode != 7 || out.String() != "typed" || errs.String() != "bad\n" {
			t.Errorf("%s: %v %+v %q %q", name, err, res, out.String(), errs.String())
		}
	}
	_, err := s.far.Exec(t.Context(), id, client.ExecOptions{Argv: []string{"no-such-program"}, Output: io.Discard, Errors: io.Discard})
	if ares.CodeOf(err) != ares.Conflict || !strings.Contains(fmt.Sprint(err), "command not found: no-such-program") {
		t.Errorf("a wrong command: %v", err)
	}

	// From a key to its echo.
	in, input := io.Pipe()
	out, output := io.Pipe()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.far.Exec(ctx, id, client.ExecOptions{
			Argv: []string{"cat"}, Terminal: &client.TerminalSize{Columns: 80, Rows: 24}, Term: "dumb", Input: in, Output: output,
		})
		_ = output.CloseWithError(io.EOF)
		done <- err
	}()
	var slowest time.Duration
	for range 200 {
		sent := time.Now()
		if _, err := input.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatal(err, <-done)
		}
		slowest = max(slowest, time.Since(sent))
	}
	t.Logf("the slowest of 200 keys was echoed after %s", slowest)
	leave()
	<-done
}

// TestFaults ends a session by the death of an agent, a server, a user and a job. The command ends each time, and the job's seat is free
// in the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.runs("job", nil, "sleep", "1000")

	x := s.begin(s.far, id, stubborn)
	s.agent.Kill()
	if err := s.gone(x); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "node-1") {
		t.Errorf("the user is told %v", err)
	}
	job, err := s.near.Job(t.Context(), id)
	if err != nil || job.GetState() != string(ares.Running) {
		t.Errorf("the job is %s, %v", job.GetState(), err)
	}
	s.agent.Start()
	s.AwaitOnline("node-1")
	// The agent that took the job over has sessions too.
	live.Await(t, cluster.Patience, "a session with a job of the previous agent", func() (bool, string) {
		res, err := s.far.Exec(t.Context(), id, client.ExecOptions{Argv: []string{"sh", "-c", "exit 5"}, Output: io.Discard, Errors: io.Discard})
		return err == nil && res.ExitCode == 5, fmt.Sprint(res, err)
	})

	x = s.begin(s.far, id, stubborn)
	s.Servers[0].Kill()
	if err := s.gone(x); err == nil {
		t.Error("the user is not told of the death of the server")
	}
	s.Servers[0].Start()
	s.Servers[0].AwaitReady()

	x = s.begin(s.near, id, stubborn)
	_, err = s.near.Cancel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.gone(x); ares.CodeOf(err) != ares.Conflict || !strings.Contains(err.Error(), "has ended, and the session with it") {
		t.Errorf("the user is told %v", err)
	}
	live.Await(t, cluster.Patience, "the seat to be free", func() (bool, string) {
		job, err := s.near.Job(t.Context(), id)
		n, _ := s.near.Node(t.Context(), "node-1")
		return job.GetState() == string(ares.Cancelled) && n.GetGpusFree() == n.GetGpusTotal() && len(n.GetJobs()) == 0, fmt.Sprint(job.GetState(), n.GetJobs(), err)
	})
	if _, err = s.near.Exec(t.Context(), id, client.ExecOptions{Argv: []string{"true"}, Output: io.Discard, Errors: io.Discard}); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a session with a cancelled job: %v", err)
	}
}

// TestForward connects to a port of a job, and to ports of other processes, which must be refused.
func TestForward(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	file := filepath.Join(s.Dir, "port")
	id := s.runs("echo", map[string]string{echoEnv: file}, os.Args[0])
	var port int
	live.Await(t, cluster.Patience, "the job to listen", func() (bool, string) {
		data, err := os.ReadFile(file)
		port, _ = strconv.Atoi(string(data))
		return port != 0, fmt.Sprint(err)
	})
	for name, c := range map[string]*client.Client{"far": s.far, "near": s.near} {
		const size = 64 << 20
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		ours, theirs := net.Pipe()
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- c.Forward(t.Context(), id, 0, port, theirs) }()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = ours.Write(want) })
		got := make([]byte, size)
		if _, err := io.ReadFull(ours, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, or other data", name, err)
		}
		wg.Wait()
		took := time.Since(began)
		t.Logf("%s: %.0f MB/s in each direction", name, float64(size)/1e6/took.Seconds())
		_ = ours.Close()
		if err := <-done; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.command(id, port)
	// A port of this machine on which another process listens.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Error("a connection to a process that is not the job's")
			_ = conn.Close()
		}
	}()
	for name, p := range map[string]int{"another process": l.Addr().(*net.TCPAddr).Port, "nobody": 1} {
		_, theirs := net.Pipe()
		err := s.near.Forward(t.Context(), id, 0, p, theirs)
		if ares.CodeOf(err) != ares.Conflict || !strings.Contains(err.Error(), fmt.Sprintf("no process of this rank listens on port %d (it listens on %d)", p, port)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The method `command` connects through the command of users, which prints where it listens, and ends it with a signal.
func (s *stage) command(id string, port int) {
	s.t.Helper()
	p := s.Run("forward", nil, s.Ares, "--data-dir", s.Servers[0].Dir, "forward", id, fmt.Sprintf("0:%d", port))
	var at string
	live.Await(s.t, cluster.Patience, "ares forward to listen", func() (bool, string) {
		line, _, found := strings.Cut(p.Log(), fmt.Sprintf(" is port %d of rank 0 of %s", port, id))
		at = strings.TrimPrefix(line, "ares: ")
		return found, p.Log()
	})
	for range 3 { // one after another
		conn, err := net.Dial("tcp", at)
		if err != nil {
			s.t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err = conn.Write([]byte("hello")); err == nil {
			_, err = io.ReadFull(conn, got)
		}
		if err != nil || string(got) != "hello" {
			s.t.Errorf("%q %v: %s", got, err, p.Log())
		}
		_ = conn.Close()
	}
	p.Signal(syscall.SIGINT)
	if code := p.Exit(cluster.Patience).ExitCode(); code != 130 {
		s.t.Errorf("exit code %d: %s", code, p.Log())
	}
}
