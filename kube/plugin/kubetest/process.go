package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program of a cluster, which a test may kill, freeze and start again. Its methods may be called from
// several goroutines.
type Process struct {
	Name string
	Log  string // path of the file with everything that it printed, over all its starts

	argv []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// newProcess describes a process without starting it.
func newProcess(logs, name string, argv ...string) *Process {
	return &Process{Name: name, Log: filepath.Join(logs, name+".log"), argv: argv}
}

// Start starts the process, which must not be running. New output is appended to the same log.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !isClosed(p.ended) {
		return fmt.Errorf("%s already runs", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, filepath.Dir(p.Log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		// The kernel kills the process when the thread that started it ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer close(ended)
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // how it ended is in its log
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.ended = cmd, ended
	return nil
}

// Kill ends the process at once and waits until it is gone. It may have ended already.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop asks the process to end and waits until it is gone. A process that is still there after ten seconds is killed.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

func (p *Process) end(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Freeze stops the process without ending it, as a long pause would; Thaw continues it.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw continues a frozen process.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || isClosed(p.ended) {
		return fmt.Errorf("%s does not run", p.Name)
	}
	return p.cmd.Process.Signal(sig)
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// While returns a context that ends when the process does, with that as its cause.
func (p *Process) While(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := p.Ended()
	go func() {
		select {
		case <-ended:
			cancel(fmt.Errorf("%s ended", p.Name))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// CPU returns the CPU time that the latest start of the process has used.
func (p *Process) CPU() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0, fmt.Errorf("%s was never started", p.Name)
	}
	if isClosed(p.ended) {
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) { // it ends right now
		<-p.ended
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
	}
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain spaces; utime and stime are the 12th and 13th fields after it.
	_, rest, ok := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("%s: unexpected /proc stat %q", p.Name, stat)
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // of the kernel's clock for processes
	return time.Duration(user+system) * tick, errors.Join(errUser, errSystem)
}

// Tail returns the last lines of the log, for error messages.
func (p *Process) Tail() string {
	const limit = 4 << 10
	log, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	if len(log) > limit {
		log = log[len(log)-limit:]
		if _, whole, ok := bytes.Cut(log, []byte("\n")); ok {
			log = whole
		}
	}
	return string(log)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
