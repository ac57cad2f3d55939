//go:build linux

package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

var supervisorPath, intruderPath string

// If these variables are set, the test binary acts as an agent that starts one seat and hangs.
const agentEnv, supervisorEnv = "ARES_TEST_AGENT", "ARES_TEST_SUPERVISOR"

func beAgent(dir string) {
	r, err := Open(dir, os.Getenv(supervisorEnv))
	if err == nil {
		var p *Proc
		if p, err = r.Start(context.Background(), sh("trap '' TERM; echo up; sleep 1000")); err == nil {
			fmt.Println(p.Pid())
			_, err = p.Wait(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, "agent:", err)
	os.Exit(1)
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentEnv); dir != "" {
		beAgent(dir)
	}
	if at := os.Getenv(listenEnv); at != "" {
		beListener(at)
	}
	dir, err := os.MkdirTemp("", "ares-run-*")
	if err != nil {
		panic(err)
	}
	_ = os.Chmod(dir, 0o755)
	supervisorPath = filepath.Join(dir, "ares-supervisor")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", supervisorPath,
		"github.com/ares-scheduler/ares/cmd/ares-supervisor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the supervisor: %v\n%s", err, out)
		os.Exit(1)
	}
	intruderPath = filepath.Join(dir, "intruder")
	if out, err := exec.Command("go", "build", "-o", intruderPath, "./testdata/intruder").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the intruder: %v\n%s", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// The constant `patience` is the maximum time that a test waits for an expected result. Only a failing test waits for
// this whole time.
const patience = 2 * time.Minute

// The type `world` is one runner with its seats.
type world struct {
	*testing.T
	*Runner
	ctx context.Context
	dir string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldIn(t, t.TempDir())
	if ok, why := w.Contained(); !ok {
		t.Skipf("no containment here: %s", why)
	}
	return w
}

func newWorldIn(t *testing.T, dir string) *world {
	t.Helper()
	r, err := Open(dir, supervisorPath)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	w := &world{T: t, Runner: r, ctx: ctx, dir: dir}
	t.Cleanup(func() {
		cancel()
		w.killLeftovers()
	})
	return w
}

// killLeftovers ends all seats that the test left running.
func (w *world) killLeftovers() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := w.Find(ctx)
	if err != nil {
		w.Error(err)
	}
	for _, f := range found {
		if err := w.EnsureDead(ctx, f.Key); err != nil {
			w.Error(err)
		}
		if err := w.Forget(f.Key); err != nil {
			w.Error(err)
		}
	}
	w.spares.close() // they are in a cgroup of their own
	if w.cgroup != "" {
		if err := w.cgroup.Remove(); err != nil {
			w.Error(err)
		}
	}
	for _, g := range w.limits.v1 {
		if err := g.Remove(); err != nil {
			w.Error(err)
		}
	}
	_ = w.Close()
	// Supervisors are children of this process. Reap them, so that no zombie is left.
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

// The method `again` opens a second runner on the same directory, as if the first agent had died.
func (w *world) again() *world {
	w.Helper()
	r, err := Open(w.dir, supervisorPath)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(r.spares.close)
	return &world{T: w.T, Runner: r, ctx: w.ctx, dir: w.dir}
}

func key(name string) Key { return Key{Job: name, Fence: 7, Rank: 0} }

// The function `sh` returns a spec that runs a shell script.
func sh(script string) Spec {
	return Spec{
		Key: key("job"), Attempt: 1, Argv: []string{"sh", "-c", script},
		Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", LostAfter: time.Minute,
		Grace: 5 * time.Second, RenewedAt: Now(),
	}
}

func (w *world) start(spec Spec) *Proc {
	w.Helper()
	if setApart {
		spec = apart(spec)
		spec.Sandbox.OwnNetwork, spec.Sandbox.FilterDevices = true, w.noDevices == "" && w.cgroup != ""
	}
	if setInImage {
		spec = w.inImage(spec)
	}
	p, err := w.Start(w.ctx, spec)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// The method `wait` returns the result of Wait, and checks that the processes are really dead.
func (w *world) wait(p *Proc) Result {
	w.Helper()
	res, err := p.Wait(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	if g := p.order.Cgroup; g != "" {
		if p.order.InSlot {
			g += "/" + seat.JobGroup // the supervisor stays in the slot
		}
		if _, err := os.Stat(g); !errors.Is(err, os.ErrNotExist) {
			w.Errorf("cgroup %s is still there: %v", g, err)
		}
	}
	if pid := p.Pid(); pid != 0 && lives(pid) {
		w.Errorf("pid %d lives after Wait", pid)
	}
	return res
}

func (w *world) want(p *Proc, outcome Outcome, code int) Result {
	w.Helper()
	res := w.wait(p)
	if res.Outcome != outcome || res.ExitCode != code {
		w.Fatalf("result %+v, want %s %d", res, outcome, code)
	}
	return res
}

func (w *world) log(k Key) string {
	w.Helper()
	l, err := w.OpenLog(k)
	if err != nil {
		w.Fatal(err)
	}
	defer l.Close()
	return drainLog(w.ctx, w.T, l, false)
}

func drainLog(ctx context.Context, t *testing.T, l *Log, follow bool) string {
	t.Helper()
	var all bytes.Buffer
	buf := make([]byte, 1000)
	for {
		n, err := l.Next(ctx, buf, follow)
		all.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The method `eventually` waits until a condition is true.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	if err := until(w.ctx, ok); err != nil {
		w.Fatalf("waiting until %s: %v", what, err)
	}
}

// The method `stalls` measures by how much this machine delays the test. Tests add this delay to their time limits,
// so that the limits can be strict on an idle machine.
func (w *world) stalls() (allowance func() time.Duration) {
	const step = 5 * time.Millisecond
	var mu sync.Mutex
	var worst time.Duration
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTimer(step)
		defer tick.Stop()
		for last := Now(); ; tick.Reset(step) {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			now := Now()
			mu.Lock()
			worst = max(worst, now.Sub(last)-step)
			mu.Unlock()
			last = now
		}
	}()
	w.Cleanup(func() { close(stop); <-done })
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return 5 * worst // several steps, in several processes, may each be late by that much
	}
}

// pidIn waits for a file to which a job writes a PID.
func (w *world) pidIn(path string) int {
	w.Helper()
	pid := 0
	w.eventually(path+" is written", func() bool {
		b, _ := os.ReadFile(path)
		if !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	if setInImage {
		return hostPid(pid)
	}
	return pid
}

func (w *world) supervisorPid(p *Proc) int {
	w.Helper()
	pid := w.pidOfSupervisor(p.Key())
	if pid == 0 {
		w.Fatalf("%s has no PID of a supervisor", p.Key())
	}
	return pid
}

// The function `lives` asks the operating system whether a process is alive. A zombie counts as dead, and so does a process that ends and
// has already given its memory and files back: the kernel takes it out of its cgroup shortly before it becomes a zombie. The first process of a
// container stays in this state until all others of the container have ended.
func lives(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const size = 20 // of its memory, as a field after the name
	return f[0] != "Z" && f[0] != "X" && f[size] != "0"
}

func TestExitCode(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("exit 42"))
	res := w.want(p, Exited, 42)
	if !res.Contained || res.Started.IsZero() || res.Ended.Before(res.Started) || res.PeakMemory <= 0 {
		t.Errorf("result %+v", res)
	}
	if again := w.wait(p); again != res {
		t.Errorf("a second Wait says %+v", again)
	}
	if err := p.Renewed(w.ctx, Now()); !errors.Is(err, ErrEnded) {
		t.Errorf("renewed after the end: %v", err)
	}
	if _, err := w.Start(w.ctx, sh("true")); !errors.Is(err, ErrExists) {
		t.Errorf("a second start of one seat: %v", err)
	}
}

func TestOwnSignal(t *testing.T) {
	w := newWorld(t)
	res := w.want(w.start(sh("kill -SEGV $$")), Exited, -1)
	if res.Signal != syscall.SIGSEGV {
		t.Errorf("signal %v", res.Signal)
	}
}

func TestSurroundings(t *testing.T) {
	w := newWorld(t)
	spec := sh(`pwd; echo "$GREETING"; cat; env | sort; grep -E "NoNewPrivs|SigIgn" /proc/self/status
		test "$(ps -o sid= -p $$ | tr -d " ")" = $$ && echo own session
		grep ^0:: /proc/self/cgroup; echo err >&2; ls /proc/self/fd | wc -l`)
	spec.Dir = t.TempDir()
	spec.Env = append(spec.Env, "GREETING=a\nb=c", "ARES_SEAT=forged")
	p := w.start(spec)
	w.want(p, Exited, 0)
	log := w.log(spec.Key)
	for _, want := range []string{
		spec.Dir + "\n", "a\nb=c\n", "NoNewPrivs:\t1", "own session\n", "\nerr\n",
		"SigIgn:\t0000000000000000\n", "/job.7.0/job\n", "ARES_PROGRESS_FILE=" + w.dir + "/seats/job.7.0/progress\n",
		"ARES_CHECKPOINT_FILE=" + w.dir + "/seats/job.7.0/checkpoint\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	for _, secret := range []string{"forged", "GOMAXPROCS", "HOME="} {
		if strings.Contains(log, secret) {
			t.Errorf("%q in\n%s", secret, log)
		}
	}
	if !strings.HasSuffix(log, "\n4\n") { // 0, 1, 2 and that of ls itself
		t.Errorf("more files than three are open in the job:\n%s", log)
	}
	if st, err := os.Stat(filepath.Join(w.dir, "seats/job.7.0")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("seat directory: %v %v", st.Mode(), err)
	}
}

func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir, err := os.MkdirTemp("", "ares-user-*") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, dir)
	spec := sh(`id -u; id -G; echo 50 half > "$ARES_PROGRESS_FILE"; cat ` + dir + `/seats/job.7.0/spec && exit 9; exit 0`)
	spec.User = &User{UID: 65534, GID: 65534}
	p := w.start(spec)
	w.want(p, Exited, 0)
	if log := w.log(spec.Key); !strings.HasPrefix(log, "65534\n65534\n") {
		t.Errorf("log %q", log)
	}
	if got, ok := p.Progress(); !ok || got != (Progress{50, "half"}) {
		t.Errorf("progress %v %v", got, ok)
	}
}

func TestSpawnErrors(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	script := filepath.Join(dir, "script")
	for path, mode := range map[string]os.FileMode{plain: 0o600, script: 0o700} {
		if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct{ argv0, dir, want string }{
		{"no-such-command", "/", "command not found: no-such-command"},
		{"/no/such/command", "/", "command not found: /no/such/command"},
		{"true", "/no/such/dir", "directory /no/such/dir does not exist"},
		{"true", plain, plain + " is not a directory"},
		{plain, "/", "permission denied: " + plain},
		{"./script", dir, "its interpreter does not exist"},
		{"/tmp", "/", "is a directory"},
	} {
		spec := sh("")
		spec.Key.Rank, spec.Argv, spec.Dir = i, []string{c.argv0}, c.dir
		p := w.start(spec)
		res := w.want(p, SpawnError, -1)
		if !strings.Contains(res.Reason, c.want) || !res.Started.IsZero() || p.Pid() != 0 {
			t.Errorf("%s: %+v, want %q", c.argv0, res, c.want)
		}
	}
}

func TestBadSpecs(t *testing.T) {
	w := newWorld(t)
	for _, spoil := range []func(*Spec){
		func(s *Spec) { s.Job = "../x" },
		func(s *Spec) { s.Job = "" },
		func(s *Spec) { s.Argv = nil },
		func(s *Spec) { s.Dir = "relative" },
		func(s *Spec) { s.LostAfter = 0 },
		func(s *Spec) { s.RenewedAt = 0 },
		func(s *Spec) { s.Env = []string{"A=\x00"} },
	} {
		spec := sh("true")
		spoil(&spec)
		if _, err := w.Start(w.ctx, spec); err == nil {
			t.Errorf("started %+v", spec)
		}
	}
	if found, err := w.Find(w.ctx); err != nil || len(found) != 0 {
		t.Errorf("found %v %v", found, err)
	}
}

func TestStartCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.Start(ctx, sh("sleep 100")); !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	if found, err := w.Find(w.ctx); err != nil || len(found) != 0 {
		t.Errorf("found %v %v", found, err)
	}
}
