package spec

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/live"
)

const (
	rowTime = 2 * time.Minute // how long one row may take; go run links a program
	outTime = time.Minute     // how long a program in the background may take to print what is wanted
)

// A session is one bash process in its own network and process namespaces. When
// it ends, the kernel ends every process it started.
type session struct {
	t    *testing.T
	dir  string // the copy of the repository
	logs string // scripts and outputs of the rows
	in   io.WriteCloser
	done *bufio.Reader
	n    int

	ended <-chan struct{} // is closed when the shell has ended
}

// newSession starts bash in a copy of the repository.
func newSession(t *testing.T, number string) *session {
	t.Helper()
	for _, name := range []string{"bash", "curl", "jq", "psql", "unshare", "ip", "setpriv"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("the documents need %s: run `make needs`", name)
		}
	}
	root, home := live.Root(t), t.TempDir()
	s := &session{t: t, dir: filepath.Join(home, "gpu-scheduler"), logs: filepath.Join(home, "rows")}
	// PostgreSQL runs as another user, who must be able to enter the directory.
	err := errors.Join(os.Chmod(filepath.Dir(home), 0o755), os.Chmod(home, 0o755), os.Mkdir(s.logs, 0o755), copyRepository(root, s.dir))
	bin := filepath.Join(s.dir, "bin")
	for _, name := range []string{"ares", "scheduler", "worker", "gpu-cli"} { // one program under the names of the documents
		err = errors.Join(err, os.MkdirAll(bin, 0o755), os.Symlink(live.Ares.Path(t), filepath.Join(bin, name)))
	}
	report, write, failed := os.Pipe()
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	cmd := isolated("bash", "--noprofile", "--norc")
	cmd.Dir = s.dir
	cmd.ExtraFiles = []*os.File{write} // descriptor 3
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "TZ=UTC", "TMPDIR=" + home,
		"ARES_MOCK_GPU=true", "ARES_ISOLATION_MODE=none", "ETCD=" + live.Etcd.Path(t), "ETCDCTL=" + live.Etcdctl.Path(t),
		"GOFLAGS=-trimpath -tags=embed_supervisor -ldflags=-w", "CGO_ENABLED=0", // as make build: the packages are compiled already
		"GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "GOPATH=" + goEnv(t, "GOPATH"),
	}
	output, err := os.Create(filepath.Join(s.logs, "bash.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = output, output
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	s.done = bufio.NewReader(report)
	if s.ended, err = startTied(cmd); err != nil {
		t.Fatalf("start bash in a network namespace: %v", err)
	}
	_, _ = write.Close(), output.Close()
	t.Cleanup(func() {
		s.close(cmd)
		_ = report.Close()
	})
	s.prepare(filepath.Join(root, "test/spec/testdata"), number)
	return s
}

// isolated returns a command that runs a program in its own network and process namespaces.
func isolated(argv ...string) *exec.Cmd {
	return exec.Command("unshare", append([]string{"--net", "--pid", "--fork", "--kill-child", "--mount-proc"}, argv...)...)
}

// startTied starts a command that the kernel kills when this process ends, for
// example at the time limit of `go test`. The channel is closed when the command
// has ended.
func startTied(cmd *exec.Cmd) (<-chan struct{}, error) {
	started, ended := make(chan error), make(chan struct{})
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the death signal is tied to the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // bash returns the status of the last row
		}
	}()
	return ended, <-started
}

// prepare runs the prelude, and the document's own script where there is one.
func (s *session) prepare(testdata, number string) {
	s.t.Helper()
	for _, name := range []string{"prelude.sh", number + ".sh"} {
		script, err := os.ReadFile(filepath.Join(testdata, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		out, status, err := s.run("set -e\n" + string(script) + "\nset +e\n")
		if err != nil || status != 0 {
			s.t.Fatalf("%s: exit status %d, %v\n%s", name, status, err, read(out))
		}
	}
}

// run runs a script in the session. It returns the file with its output, to which
// programs in the background may still write.
func (s *session) run(script string) (out string, status int, err error) {
	s.n++
	name := filepath.Join(s.logs, fmt.Sprintf("%03d", s.n))
	out = name + ".out"
	if err = os.WriteFile(name+".sh", []byte(script), 0o644); err != nil {
		return out, 0, err
	}
	if _, err = fmt.Fprintf(s.in, "source %s.sh >%s 2>&1 </dev/null; echo $? >&3\n", name, out); err != nil {
		return out, 0, err
	}
	type answer struct {
		status int
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		_, a.err = fmt.Fscanln(s.done, &a.status)
		answered <- a
	}()
	select {
	case a := <-answered:
		if status = a.status; a.err != nil {
			err = fmt.Errorf("the shell has ended: %w", a.err)
		}
	case <-time.After(rowTime):
		_ = s.in.Close()
		err = fmt.Errorf("still running after %s", rowTime)
	}
	return out, status, err
}

// close asks the servers to stop, so that no job is left, and ends the shell.
func (s *session) close(cmd *exec.Cmd) {
	if _, _, err := s.run("stop_all"); err != nil {
		s.t.Logf("stop the servers: %v", err)
	}
	_ = s.in.Close()
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill() // with --kill-child, its namespace ends with it
		<-s.ended
	}
}

// background matches a script that leaves a program running, which may print later.
var background = regexp.MustCompile(`(?m)&\s*$`)

// match waits until an output matches all expressions, or returns the first that it does not match.
func match(out string, wants []string, wait time.Duration) (missing string) {
	deadline := time.Now().Add(wait)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		missing = ""
		text := read(out)
		for _, want := range wants {
			if !regexp.MustCompile("(?m)" + want).MatchString(text) {
				missing = want
				break
			}
		}
		if missing == "" || time.Now().After(deadline) {
			return missing
		}
		<-tick.C
	}
}

func read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// copyRepository copies the sources, without what is built or generated from them.
func copyRepository(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == "bin", strings.HasPrefix(name, "."):
			continue
		case e.IsDir():
			err = os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name)))
		default:
			var data []byte
			if data, err = os.ReadFile(filepath.Join(from, name)); err == nil {
				err = errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, name), data, 0o644))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
