package scripts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ares-scheduler/ares/test/live"
)

// `patience` is the maximum time for which a script waits for a condition. On a busy machine, a
// script may need most of this time.
const patience = 30 * time.Second

// askEvery is how often waitfor repeats its command.
const askEvery = 100 * time.Millisecond

func TestScripts(t *testing.T) {
	dir := programs(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		RequireUniqueNames: true,
		Setup:              func(env *testscript.Env) error { return setup(env, dir) },
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "loop": // whether this machine, if it is a container, has loop devices
				_, err := os.Stat("/dev/loop-control")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"up":       up,
			"serve":    serve,
			"join":     join,
			"down":     down,
			"exits":    exits,
			"let":      let,
			"waitfor":  waitfor,
			"until":    until,
			"spec":     spec,
			"page":     page,
			"terminal": terminal,
			"tmpfs":    tmpfs,
		},
	})
}

// This function makes a directory for the binary under test. In this directory, the binary has
// each of its names.
func programs(t *testing.T) string {
	t.Helper()
	binary := live.Ares.Path(t)
	for _, name := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("these scripts need %s: install it with your package manager", name)
		}
	}
	dir := t.TempDir()
	for _, name := range names {
		if err := os.Symlink(binary, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The variable `names` lists the names of the binary.
var names = []string{"ares", "scheduler", "worker", "gpu-cli"}

// The variable `carried` lists the environment variables that affect ares and that a script may
// set.
var carried = []string{
	"ARES_DATA_DIR", "ARES_SERVER", "ARES_TOKEN", "ARES_TOKEN_FILE", "ARES_MOCK_GPU", "ARES_ISOLATION_MODE", "ARES_ISOLATION_ALLOW_UNTRUSTED",
	"ARES_SESSION_RECORDING_RECORD",
	"ARES_ISOLATION_USER_RANGE", "ARES_ISOLATION_DISK_MB", "ARES_ISOLATION_WORK_MB", "ETCD_ENDPOINTS", "WORKER_ID", "GPU_SCHEDULER_DATABASE_PASSWORD", "GPU_SCHEDULER_DATABASE_PORT", "GPU_SCHEDULER_API_HTTP_PORT",
}

// A `session` is the state of one script: the processes it started, and its initial environment.
type session struct {
	vars []string
	tb   testing.TB
	ups  []*instance
}

type sessionKey struct{}

func of(ts *testscript.TestScript) *session { return ts.Value(sessionKey{}).(*session) }

func setup(env *testscript.Env, dir string) error {
	for _, name := range carried {
		env.Setenv(name, "")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	env.Setenv("ROOT", root)
	env.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	env.Setenv("ARES_MOCK_GPU", "true")       // the same devices on every machine
	env.Setenv("ARES_ISOLATION_MODE", "none") // jobs write into the script's directory; see isolation.txtar
	env.Setenv("ARES_DATA_DIR", filepath.Join(env.WorkDir, "none"))
	env.Setenv("LANG", "C.UTF-8")
	env.Setenv("TZ", "UTC")
	s := &session{vars: env.Vars, tb: env.T().(testing.TB)}
	env.Values[sessionKey{}] = s
	env.Defer(s.stopAll)
	return nil
}

// `environ` returns the environment of the script's commands.
func (s *session) environ(ts *testscript.TestScript) []string {
	vars := append([]string(nil), s.vars...)
	for _, name := range carried {
		vars = append(vars, name+"="+ts.Getenv(name))
	}
	return vars
}

// This method prepares a command of the script, but does not start it.
func (s *session) command(ctx context.Context, ts *testscript.TestScript, argv []string) *exec.Cmd {
	path := argv[0]
	if slices.Contains(names, path) {
		path = filepath.Join(firstPath(ts.Getenv("PATH")), path)
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), s.environ(ts)
	return cmd
}

// `run` runs a command without logging it.
func (s *session) run(ctx context.Context, ts *testscript.TestScript, argv []string) (stdout, stderr string, code int) {
	cmd := s.command(ctx, ts, argv)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil && cmd.ProcessState == nil && ctx.Err() == nil {
		ts.Fatalf("%s: %s", argv[0], err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func firstPath(path string) string {
	dir, _, _ := strings.Cut(path, string(os.PathListSeparator))
	return dir
}

// The script command "exits CODE COMMAND [ARG...]" runs a command that must exit with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %s", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// The script command "let NAME COMMAND [ARG...]" stores a command's output in the variable NAME.
func let(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: let NAME COMMAND ARGS...")
	}
	ts.Check(ts.Exec(args[1], args[2:]...))
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// The script command "waitfor REGEXP COMMAND [ARG...]" repeats a command until
// its stdout or stderr matches REGEXP. The output of the last repetition
// becomes the script's stdout and stderr.
func waitfor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: waitfor REGEXP COMMAND ARGS...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(of(ts).tb.Context(), patience)
	defer cancel()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	last := "none came"
	for {
		stdout, stderr, code := of(ts).run(ctx, ts, args[1:])
		if want.MatchString(stdout) || want.MatchString(stderr) {
			_, _ = ts.Stdout().Write([]byte(stdout))
			_, _ = ts.Stderr().Write([]byte(stderr))
			return
		}
		if ctx.Err() == nil { // otherwise it was cut short
			last = fmt.Sprintf("exit code %d\n%s%s", code, stdout, stderr)
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("no match for %q within %s; the last answer: %s", args[0], patience, last)
		case <-ask.C:
		}
	}
}

// The script command "until REGEXP COMMAND [ARG...]" starts a command that
// keeps running. When the command's output matches REGEXP, the command is
// interrupted as by Ctrl-C. The interrupted command must exit with code 0. The
// output of the interrupted command becomes the script's stdout and stderr.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND ARGS...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(of(ts).tb.Context(), patience)
	defer cancel()
	cmd := of(ts).command(ctx, ts, args[1:])
	var out, errs printed
	cmd.Stdout, cmd.Stderr = &out, &errs
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for asked := false; ; {
		if !asked && want.MatchString(out.String()) {
			asked = true
			ts.Check(cmd.Process.Signal(os.Interrupt))
		}
		select {
		case err := <-ended:
			_, _ = ts.Stdout().Write([]byte(out.String()))
			_, _ = ts.Stderr().Write([]byte(errs.String()))
			if err != nil || !asked {
				ts.Fatalf("interrupted: %t, ended with %v; want an end by interruption with exit code 0", asked, err)
			}
			return
		case <-ask.C:
		}
	}
}

// The script command "spec FILE [OLD=NEW...]" runs the commands in FILE exactly as the source
// documents show them. The command replaces only three things: the server's address, the token,
// and the values that the text tells the reader to replace.
func spec(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: spec FILE [OLD=NEW...]")
	}
	text := ts.ReadFile(args[0])
	for _, pair := range args[1:] {
		old, given, ok := strings.Cut(pair, "=")
		if !ok || !strings.Contains(text, old) {
			ts.Fatalf("%s has no %q to replace", args[0], old)
		}
		text = strings.ReplaceAll(text, old, given)
	}
	path := ts.MkAbs(args[0] + ".run")
	ts.Check(os.WriteFile(path, []byte(rewrite(text, ts.Getenv("URL"), ts.Getenv("TOKEN"))), 0o600))
	ts.Check(ts.Exec("bash", "-eu", "-o", "pipefail", path))
}

// `rewrite` replaces the server's address in the commands and adds the token.
func rewrite(text, url, token string) string {
	text = strings.ReplaceAll(text, "http://localhost:8080", url)
	return strings.ReplaceAll(text, "curl ", `curl -H "Authorization: Bearer `+token+`" `)
}

func TestRewrite(t *testing.T) {
	got := rewrite("ID=$(curl -s http://localhost:8080/a | jq .)", "http://127.0.0.1:1", "t")
	if want := `ID=$(curl -H "Authorization: Bearer t" -s http://127.0.0.1:1/a | jq .)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
