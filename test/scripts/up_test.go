package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// instance is one `ares up`, `ares server` or `ares agent`, with its data
// directory.
type instance struct {
	name  string
	dir   string
	cmd   *exec.Cmd
	out   printed
	errs  printed
	ended chan error
}

// printed is output that is read while it is written.
type printed struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buf.String()
}

// ports are the flags by which several servers run on one machine.
var ports = []string{"--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"}

// up [FLAGS] starts `ares up` on free ports, in $WORK/data unless --data-dir
// says otherwise, and returns when its node is online. ARES_DATA_DIR, URL,
// GRPC, METRICS and TOKEN are then those of this one; what it printed so far is
// the script's stdout. The end of the script stops it.
func up(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: up [FLAGS]")
	}
	dir := filepath.Join(ts.Getenv("WORK"), "data")
	if i := slices.Index(args, "--data-dir"); i >= 0 && i+1 < len(args) {
		dir, args = args[i+1], slices.Delete(slices.Clone(args), i, i+2)
	}
	ts.Setenv("ARES_DATA_DIR", dir)
	in := begin(ts, "up", dir, slices.Concat(ports, args)...)
	in.await(ts, "Try, in another terminal", "online", "node", "list")
	in.export(ts)
	_, _ = ts.Stdout().Write([]byte(in.out.String()))
}

// serve [FLAGS] is up for an `ares server`, which has no node of its own.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serve [FLAGS]")
	}
	dir := filepath.Join(ts.Getenv("WORK"), "data")
	ts.Setenv("ARES_DATA_DIR", dir)
	in := begin(ts, "server", dir, slices.Concat(ports, args)...)
	in.await(ts, "", "No nodes", "node", "list")
	in.export(ts)
}

// join NODE [FLAGS] starts an `ares agent` of that name for the server, and
// returns when it is online. The end of the script stops it.
func join(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: join NODE [FLAGS]")
	}
	node, dir := args[0], filepath.Join(ts.Getenv("WORK"), "nodes", args[0])
	flags := []string{"--node", node, "--server", ts.Getenv("GRPC")}
	if !slices.Contains(args, "--join") {
		flags = append(flags, "--token-file", filepath.Join(ts.Getenv("ARES_DATA_DIR"), "node.token"))
	}
	in := begin(ts, "agent", dir, slices.Concat(flags, args[1:])...)
	in.await(ts, "", "online", "node", "get", node)
}

// begin starts an ares process that goes on by itself.
func begin(ts *testscript.TestScript, name, dir string, args ...string) *instance {
	s := of(ts)
	in := &instance{name: "ares " + name, dir: dir, ended: make(chan error, 1)}
	in.cmd = s.command(context.Background(), ts, slices.Concat([]string{"ares", name, "--data-dir", dir}, args))
	in.cmd.Env = append(in.cmd.Env, "ARES_DATA_DIR=") // the flag says it
	in.cmd.Stdout, in.cmd.Stderr = &in.out, &in.errs
	in.cmd.WaitDelay = patience // jobs must not hold its output open
	ts.Check(in.cmd.Start())
	s.ups = append(s.ups, in)
	go func() { in.ended <- in.cmd.Wait() }()
	return in
}

// await returns when the process has said something, and ares answers a
// question with something.
func (in *instance) await(ts *testscript.TestScript, said, answer string, question ...string) {
	s := of(ts)
	ctx, cancel := context.WithTimeout(s.tb.Context(), patience)
	defer cancel()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for {
		if strings.Contains(in.out.String(), said) {
			if stdout, _, _ := s.run(ctx, ts, append([]string{"ares"}, question...)); strings.Contains(stdout, answer) {
				return
			}
		}
		select {
		case err := <-in.ended:
			in.ended <- err
			ts.Fatalf("%s ended: %v\n%s%s", in.name, err, in.out.String(), in.errs.String())
		case <-ctx.Done():
			ts.Fatalf("%s: no %q within %s:\n%s%s", in.name, answer, patience, in.out.String(), in.errs.String())
		case <-ask.C:
		}
	}
}

// export tells the script where the server is.
func (in *instance) export(ts *testscript.TestScript) {
	data, err := os.ReadFile(filepath.Join(in.dir, "server.json"))
	ts.Check(err)
	var at struct{ HTTP, GRPC, Metrics string }
	ts.Check(json.Unmarshal(bytes.ReplaceAll(data, []byte("[::]"), []byte("127.0.0.1")), &at)) // it listens there, too
	token, err := os.ReadFile(filepath.Join(in.dir, "admin.token"))
	ts.Check(err)
	ts.Setenv("URL", "http://"+at.HTTP)
	ts.Setenv("HTTP", at.HTTP)
	ts.Setenv("GRPC", at.GRPC)
	ts.Setenv("METRICS", "http://"+at.Metrics+"/metrics")
	ts.Setenv("TOKEN", strings.TrimSpace(string(token)))
}

// down [-leave] interrupts the process that was started last and wants it to end well; with
// -leave, its jobs may go on. Its log is then the script's stderr.
func down(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	leave := slices.Equal(args, []string{"-leave"})
	if neg || len(args) > 0 && !leave || len(s.ups) == 0 {
		ts.Fatalf("usage: down [-leave], after up")
	}
	last := len(s.ups) - 1
	in := s.ups[last]
	s.ups = s.ups[:last]
	err := in.stop()
	_, _ = ts.Stderr().Write([]byte(in.errs.String()))
	ts.Check(err)
	if !leave {
		ts.Check(in.alone())
	}
}

// stopAll ends a script: every server ends well and leaves no process behind.
func (s *session) stopAll() {
	for _, in := range slices.Backward(s.ups) {
		if err := in.stop(); err != nil {
			s.tb.Error(err)
		}
		if err := in.alone(); err != nil {
			s.tb.Error(err)
		}
		if s.tb.Failed() {
			s.tb.Logf("the log of %s in %s:\n%s", in.name, in.dir, in.errs.String())
		}
	}
	s.ups = nil
}

// stop interrupts the server, as Ctrl-C does, and waits for it.
func (in *instance) stop() error {
	if err := in.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("interrupt %s: %w", in.name, err)
	}
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case err := <-in.ended:
		if err != nil {
			return fmt.Errorf("%s, interrupted, ended with %w, want exit code 0:\n%s", in.name, err, in.errs.String())
		}
		return nil
	case <-patient.C:
		_ = in.cmd.Process.Kill() // it may have ended just now
		<-in.ended
		return fmt.Errorf("%s did not end within %s of its interruption:\n%s", in.name, patience, in.errs.String())
	}
}

// alone wants that no process of the data directory is left: neither a
// supervisor nor a job's own. Those it finds after a while it kills.
func (in *instance) alone() error {
	patient := time.NewTimer(patience / 3)
	defer patient.Stop()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for {
		left := processesOf(in.dir)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-patient.C:
			for pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
			}
			return fmt.Errorf("after %s in %s these processes were left, and killed: %v", in.name, in.dir, left)
		case <-ask.C:
		}
	}
}

// processesOf finds the processes whose command line or environment names dir:
// every job has ARES_PROGRESS_FILE in it.
func processesOf(dir string) map[int]string {
	left := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(file))
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(file + "/cmdline") // it may have ended just now
		env, _ := os.ReadFile(file + "/environ")
		if bytes.Contains(line, []byte(dir+"/")) || bytes.Contains(env, []byte(dir+"/")) {
			left[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}
