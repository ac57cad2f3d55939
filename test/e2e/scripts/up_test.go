package scripts

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ares-scheduler/ares/test/cluster"
)

// An `instance` is one process of `ares up`, `ares server` or `ares agent`, with its data
// directory.
type instance struct {
	*cluster.Process
	dir string
}

// This type collects output that is read while it is being written.
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

// This variable holds flags that let a server choose free ports, so that
// several servers can run on one machine.
var ports = []string{"--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"}

// The script command "up [FLAGS]" starts `ares up` on free ports and returns
// when its node is online. The data directory is $WORK/data unless the flag
// --data-dir sets another one. The command sets ARES_DATA_DIR, URL, GRPC,
// METRICS and TOKEN for this instance. The output of `ares up` so far becomes
// the script's stdout. The instance is stopped when the script ends.
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
	_, _ = ts.Stdout().Write([]byte(in.Out()))
}

// The script command "serve [FLAGS]" is like the command "up", but starts an `ares server`, which
// has no node.
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

// The script command "join NODE [FLAGS]" starts an `ares agent` for that node,
// and returns when the node is online. The agent is stopped when the script
// ends.
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

// This function starts an ares process in the background.
func begin(ts *testscript.TestScript, name, dir string, args ...string) *instance {
	s := of(ts)
	// Set the data directory with the flag, because the environment variable
	// may name another directory.
	cmd := s.command(context.Background(), ts, slices.Concat([]string{"ares", name, "--data-dir", dir}, args))
	in := &instance{dir: ts.MkAbs(dir), Process: cluster.NewProcess(s.tb, s.tb.TempDir(), cluster.Command{
		Name: "ares " + name, Argv: append([]string{cmd.Path}, cmd.Args[1:]...), Env: append(cmd.Env, "ARES_DATA_DIR="), Dir: cmd.Dir, Split: true,
	})}
	s.ups = append(s.ups, in)
	return in
}

// `await` waits for two things: the process has printed a given text, and a given ares command
// prints the expected answer.
func (in *instance) await(ts *testscript.TestScript, said, answer string, question ...string) {
	s := of(ts)
	ctx, cancel := context.WithTimeout(s.tb.Context(), patience)
	defer cancel()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for {
		if strings.Contains(in.Out(), said) {
			if stdout, _, _ := s.run(ctx, ts, append([]string{"ares"}, question...)); strings.Contains(stdout, answer) {
				return
			}
		}
		select {
		case <-in.Ended():
			ts.Fatalf("%s ended\n%s%s", in.Name, in.Out(), in.Log())
		case <-ctx.Done():
			ts.Fatalf("%s: no %q within %s:\n%s%s", in.Name, answer, patience, in.Out(), in.Log())
		case <-ask.C:
		}
	}
}

// This method sets the script's variables to the server's addresses and its
// token.
func (in *instance) export(ts *testscript.TestScript) {
	data, err := os.ReadFile(filepath.Join(in.dir, "server.json"))
	ts.Check(err)
	var at struct{ HTTP, GRPC, Metrics string }
	ts.Check(json.Unmarshal(bytes.ReplaceAll(data, []byte("[::]"), []byte("127.0.0.1")), &at)) // it also listens on the loopback address
	token, err := os.ReadFile(filepath.Join(in.dir, "admin.token"))
	ts.Check(err)
	ts.Setenv("URL", "http://"+at.HTTP)
	ts.Setenv("HTTP", at.HTTP)
	ts.Setenv("GRPC", at.GRPC)
	ts.Setenv("METRICS", "http://"+at.Metrics+"/metrics")
	ts.Setenv("TOKEN", strings.TrimSpace(string(token)))
}

// The script command "down [-leave]" interrupts the most recently started
// process, which must then exit with code 0. With -leave, jobs of that process
// may keep running. The log of the process becomes the script's stderr.
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
	_, _ = ts.Stderr().Write([]byte(in.Log()))
	ts.Check(err)
	if !leave {
		ts.Check(in.alone())
	}
}

// stopAll runs at the end of a script. It checks that every server exits cleanly and leaves no
// process behind.
func (s *session) stopAll() {
	for _, in := range slices.Backward(s.ups) {
		if err := in.stop(); err != nil {
			s.tb.Error(err)
		}
		if err := in.alone(); err != nil {
			s.tb.Error(err)
		}
		if s.tb.Failed() {
			s.tb.Logf("the log of %s in %s:\n%s", in.Name, in.dir, in.Log())
		}
	}
	s.ups = nil
}

// This method interrupts the process, as Ctrl-C does, and waits until it has
// exited.
func (in *instance) stop() error {
	in.Stop(syscall.SIGINT, patience)
	if state := in.Exit(patience); !state.Success() {
		return fmt.Errorf("%s, interrupted, ended with %s, want exit code 0:\n%s", in.Name, state, in.Log())
	}
	return nil
}

// This method checks that no process still uses the data directory. Neither a supervisor nor a
// job's process may be left. The method kills processes that are still left after a while.
func (in *instance) alone() error {
	patient := time.NewTimer(patience / 3)
	defer patient.Stop()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for {
		left := cluster.ProcessesOf(in.dir)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-patient.C:
			for pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
			}
			return fmt.Errorf("after %s in %s these processes were left, and killed: %v", in.Name, in.dir, left)
		case <-ask.C:
		}
	}
}
