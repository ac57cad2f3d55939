package session

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

var rounds = flag.Int("rounds", 4, "number of processes that TestAttachOverKill kills")

// If this variable is set, the test binary acts as a job that prints numbered lines of its own, and for each line of its input a line with
// it. It ends at the end of its input.
const countEnv = "ARES_TEST_COUNT"

func beCounter() {
	var mu sync.Mutex
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			mu.Lock()
			fmt.Println("own", n)
			mu.Unlock()
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		mu.Lock()
		fmt.Println("got", lines.Text())
		mu.Unlock()
	}
	close(done)
	<-stopped
	fmt.Println("end")
	os.Exit(7)
}

// The method `attachable` submits a job with the given standard input, and waits until it runs.
func (s *stage) attachable(name string, env map[string]string, tty bool, command ...string) string {
	s.t.Helper()
	return s.submitAs(s.near, &apipb.JobSpec{Name: name, Command: command, Environment: env, Stdin: !tty, Tty: tty})
}

// The method `submitAs` submits a job that is not retried, and waits until it runs.
func (s *stage) submitAs(c *client.Client, spec *apipb.JobSpec) string {
	s.t.Helper()
	spec.RequestId, spec.LostAfterSeconds, spec.Retry = spec.GetName(), 300, &apipb.RetryPolicy{MaxRetries: new(int32)}
	answer, err := c.Submit(s.t.Context(), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	id := answer.GetJobId()
	live.Await(s.t, cluster.Patience, spec.GetName()+" to run", func() (bool, string) {
		j, err := s.near.Job(s.t.Context(), id)
		return j.GetState() == string(ares.Running), fmt.Sprint(j.GetState(), j.GetReason(), err)
	})
	return id
}

// An attachedUser is a user who is attached to a job.
type attachedUser struct {
	t     *testing.T
	input *io.PipeWriter
	ready chan client.Attached
	ended chan struct{}
	job   *apipb.Job // with err after ended
	err   error

	mu     sync.Mutex
	output bytes.Buffer
}

func (u *attachedUser) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.output.Write(b)
}

func (u *attachedUser) seen() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.output.String()
}

// The method `attach` attaches a user through any of the servers. The output begins with the job's first line.
func (s *stage) attach(ctx context.Context, c *client.Client, id string, change func(*client.AttachOptions)) *attachedUser {
	s.t.Helper()
	in, input := io.Pipe()
	u := &attachedUser{t: s.t, input: input, ready: make(chan client.Attached, 1), ended: make(chan struct{})}
	o := client.AttachOptions{Tail: 10_000, Input: in, Output: u, Attached: func(a client.Attached) { u.ready <- a }}
	if change != nil {
		change(&o)
	}
	go func() {
		defer close(u.ended)
		u.job, u.err = c.Attach(ctx, id, o)
		_ = in.Close()
	}()
	return u
}

func (u *attachedUser) isAttached() client.Attached {
	u.t.Helper()
	select {
	case a := <-u.ready:
		return a
	case <-u.ended:
		u.t.Fatal(u.err)
	case <-time.After(cluster.Patience):
		u.t.Fatal("the user is not attached")
	}
	return client.Attached{}
}

// The method `sees` waits until the output has a text.
func (u *attachedUser) sees(text string) {
	u.t.Helper()
	live.Await(u.t, cluster.Patience, fmt.Sprintf("%q in the output", text), func() (bool, string) {
		select {
		case <-u.ended:
			if !strings.Contains(u.seen(), text) {
				u.t.Fatalf("%q is not in the output %q: %v", text, u.seen(), u.err)
			}
		default:
		}
		return strings.Contains(u.seen(), text), u.seen()
	})
}

func (u *attachedUser) leaves() error {
	u.t.Helper()
	select {
	case <-u.ended:
	case <-time.After(cluster.Patience):
		u.t.Fatalf("the user is still attached; output: %q", u.seen())
	}
	return u.err
}

// TestAttachOverKill kills the agent and the servers in turn, while a user sends numbered lines and the job prints numbered lines. None is
// lost or doubled, in both directions.
func TestAttachOverKill(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.attachable("counter", map[string]string{countEnv: "1"}, false, os.Args[0])
	u := s.attach(t.Context(), s.Client(), id, nil)
	u.isAttached()
	sent := 0
	send := func(count int) {
		for range count {
			if _, err := fmt.Fprintf(u.input, "%d\n", sent); err != nil {
				t.Fatal(err, u.err)
			}
			sent++
		}
	}
	// Lines are on their way all the time, of which the kills cut some at any point.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if _, err := fmt.Fprintf(u.input, "%d\n", sent); err != nil {
				return
			}
			sent++
		}
	}()
	victims := []struct {
		name  string
		kill  func()
		again func()
	}{
		{"agent", s.agent.Kill, func() { s.agent.Start(); s.AwaitOnline("node-1") }},
		{"near server", s.Servers[1].Kill, func() { s.Servers[1].Start(); s.Servers[1].AwaitReady(); s.AwaitOnline("node-1") }},
		{"far server", s.Servers[0].Kill, func() { s.Servers[0].Start(); s.Servers[0].AwaitReady() }},
		{"agent and near server", func() { s.agent.Kill(); s.Servers[1].Kill() }, func() { s.Servers[1].Start(); s.agent.Start(); s.Servers[1].AwaitReady(); s.AwaitOnline("node-1") }},
	}
	for n := range *rounds {
		v := victims[n%len(victims)]
		v.kill()
		v.again()
		lines := strings.Count(u.seen(), "got ")
		live.Await(t, cluster.Patience, fmt.Sprintf("more output in round %d, after the kill of the %s", n, v.name), func() (bool, string) {
			select {
			case <-u.ended:
				t.Fatalf("round %d, %s: %v", n, v.name, u.err)
			default:
			}
			return strings.Count(u.seen(), "got ") > lines+10, fmt.Sprint(strings.Count(u.seen(), "got "), " after ", lines)
		})
	}
	close(stop)
	<-stopped
	send(10)
	if err := u.input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := u.leaves(); err != nil || u.job.GetResult().GetExitCode() != 7 {
		t.Errorf("%v, exit code %d", err, u.job.GetResult().GetExitCode())
	}
	counts := map[string]int{}
	lines := strings.Split(strings.TrimSuffix(u.seen(), "\n"), "\n")
	for i, line := range lines {
		kind, number, _ := strings.Cut(line, " ")
		if kind == "end" && i == len(lines)-1 {
			continue
		}
		if want := strconv.Itoa(counts[kind]); number != want {
			t.Fatalf("line %d is %q, want number %s", i, line, want)
		}
		counts[kind]++
	}
	if counts["got"] != sent || counts["own"] == 0 || lines[len(lines)-1] != "end" {
		t.Errorf("%v, but %d lines were sent; the last line is %q", counts, sent, lines[len(lines)-1])
	}
	t.Logf("%d kills, %d lines of input, %d lines of output", *rounds, sent, len(lines))
}

// TestAttachTerminal is attached to a terminal: sizes, keys, the end of the job, and an agent that is killed.
func TestAttachTerminal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.attachable("terminal", nil, true, "sh", "-c", `trap 'stty size' WINCH; trap 'echo interrupted; exit 5' INT; echo "$TERM up"; while :; do read line && echo "got $line"; done`)
	size := make(chan client.TerminalSize, 1)
	resizes := make(chan struct{})
	now := client.TerminalSize{Columns: 80, Rows: 24}
	u := s.attach(t.Context(), s.Client(), id, func(o *client.AttachOptions) {
		o.Resizes = resizes
		o.Size = func() client.TerminalSize {
			select {
			case now = <-size:
			default:
			}
			return now
		}
	})
	if a := u.isAttached(); !a.Terminal || a.Attempt != 1 {
		t.Errorf("attached to %+v", a)
	}
	u.sees("xterm up\r\n")
	size <- client.TerminalSize{Columns: 61, Rows: 13}
	resizes <- struct{}{}
	u.sees("13 61\r\n")
	_, _ = u.input.Write([]byte("typed\r"))
	u.sees("got typed\r\n")
	size <- client.TerminalSize{} // as some terminals say
	resizes <- struct{}{}
	u.sees("1 1\r\n")
	s.agent.Kill()
	_, _ = u.input.Write([]byte("meanwhile\r"))
	s.agent.Start()
	u.sees("got meanwhile\r\n")
	_, _ = u.input.Write([]byte{3})
	if err := u.leaves(); err != nil || u.job.GetResult().GetExitCode() != 5 {
		t.Errorf("%v, exit code %d", err, u.job.GetResult().GetExitCode())
	}
	if out := u.seen(); !strings.HasSuffix(out, "interrupted\r\n") || strings.Count(out, "got ") != 2 {
		t.Errorf("output %q", out)
	}
}

// TestAttachErrors attaches where that is not possible, attaches a second user, and leaves.
func TestAttachErrors(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	plain := s.runs("plain", nil, "sleep", "1000")
	for name, c := range map[string]*client.Client{"far": s.far, "near": s.near} {
		_, err := c.Attach(t.Context(), plain, client.AttachOptions{Output: io.Discard})
		if ares.CodeOf(err) != ares.Invalid || !strings.Contains(fmt.Sprint(err), "has no standard input: submit it with --stdin or --tty") {
			t.Errorf("%s: %v", name, err)
		}
	}
	id := s.attachable("cat", nil, false, "cat")
	if _, err := s.near.Attach(t.Context(), id, client.AttachOptions{Rank: 1, Output: io.Discard}); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a rank that does not exist: %v", err)
	}
	first := s.attach(t.Context(), s.far, id, nil)
	first.isAttached()
	_, _ = first.input.Write([]byte("one\n"))
	first.sees("one\n")
	left := errors.New("left")
	second := s.attach(t.Context(), s.near, id, nil)
	second.isAttached()
	if err := first.leaves(); ares.CodeOf(err) != ares.LimitReached || !strings.Contains(err.Error(), "another user has attached to rank 0") {
		t.Errorf("the first user is told %v", err)
	}
	_, _ = second.input.Write([]byte("two\n"))
	_ = second.input.CloseWithError(left) // the keys to detach
	if err := second.leaves(); !errors.Is(err, left) {
		t.Errorf("the second user left: %v", err)
	}
	third := s.attach(t.Context(), s.near, id, nil)
	third.isAttached()
	third.sees("one\ntwo\n")
	_ = third.input.Close()
	if err := third.leaves(); err != nil || third.job.GetState() != string(ares.Succeeded) || third.seen() != "one\ntwo\n" {
		t.Errorf("%v, %s, %q", err, third.job.GetState(), third.seen())
	}
	if _, err := s.near.Attach(t.Context(), id, client.AttachOptions{Output: io.Discard}); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("a job that has ended: %v", err)
	}
}
