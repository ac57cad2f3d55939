package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// restartDelay is how long the harness waits before it restarts a supervised
// process.
const restartDelay = 300 * time.Millisecond

// Command describes how a process is started.
type Command struct {
	Name string // of the process; its log is NAME.log
	// If Split is set, the process writes its standard output to NAME.out
	// instead of the log.
	Split bool
	Argv  []string
	Env   []string // in addition to PATH and HOME
	Dir   string   // working directory and HOME; by default the directory of the logs
	// If Supervised is set, the harness restarts the process when it ends by
	// itself, as a service manager does.
	Supervised bool
}

// Process is a program that a test starts and may kill, freeze and start again.
// The methods of a Process may be called from several goroutines.
type Process struct {
	Name    string
	LogFile string // everything it printed, over all its starts
	OutFile string // its standard output; LogFile unless it is split

	t       testing.TB
	command Command

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended
	down    bool          // a supervised process stays down until Start
	over    bool          // it was ended permanently
	watches sync.WaitGroup
}

// NewProcess starts a process and writes its log to the directory `logs`. The
// caller must end the process with End.
func NewProcess(t testing.TB, logs string, c Command) *Process {
	t.Helper()
	if c.Dir == "" {
		c.Dir = logs
	}
	p := &Process{Name: c.Name, LogFile: filepath.Join(logs, c.Name+".log"), t: t, command: c}
	p.OutFile = p.LogFile
	if c.Split {
		p.OutFile = filepath.Join(logs, c.Name+".out")
	}
	if err := p.start(nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// Start starts the process again after Kill, Stop or its own end. The process
// gets additional environment variables. New output is appended to the same
// log. If a supervised process was not stopped, Start has no effect.
func (p *Process) Start(env ...string) {
	p.t.Helper()
	if err := p.start(env); err != nil {
		p.t.Error(err)
	}
}

func (p *Process) start(env []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.cmd != nil && p.command.Supervised && !p.down {
		return nil
	}
	p.down = false
	return p.spawn(env)
}

// `spawn` starts the program. The caller must hold p.mu.
func (p *Process) spawn(env []string) error {
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	out, err := os.OpenFile(p.OutFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.command.Argv[0], p.command.Argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, log, p.command.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.command.Dir}, p.command.Env...)
	cmd.Env = append(cmd.Env, env...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	p.watches.Go(func() {
		_ = cmd.Wait() // the test checks how it ended
		close(ended)
		if p.command.Supervised {
			<-time.After(restartDelay)
			p.restart(cmd, env)
		}
	})
	return nil
}

// This method starts a supervised process again after it ended by itself.
func (p *Process) restart(ended *exec.Cmd, env []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == ended && !p.down {
		if err := p.spawn(env); err != nil {
			p.t.Error(err)
		}
	}
}

// The method `current` returns the program that is running or that ran last.
func (p *Process) current() (*exec.Cmd, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.ended
}

// Ended returns a channel that is closed when the most recently started program
// has ended.
func (p *Process) Ended() <-chan struct{} {
	_, ended := p.current()
	return ended
}

// Exit waits until the process has ended and returns its exit state.
func (p *Process) Exit(atMost time.Duration) *os.ProcessState {
	p.t.Helper()
	cmd, ended := p.current()
	select {
	case <-ended:
	case <-time.After(atMost):
		p.t.Fatalf("%s did not end within %s", p.Name, atMost)
	}
	return cmd.ProcessState
}

// Kill sends SIGKILL and returns when the process has ended. A supervised
// process stays down until the test calls Start.
func (p *Process) Kill() { p.Stop(syscall.SIGKILL, 0) }

// Stop sends a signal and waits until the process has ended. If the process
// does not end within atMost, the test fails and the process is killed.
func (p *Process) Stop(sig syscall.Signal, atMost time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	p.down = true
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	_ = cmd.Process.Signal(sig) // it may have ended already
	if sig != syscall.SIGKILL {
		select {
		case <-ended:
			return
		case <-time.After(atMost):
			p.t.Errorf("%s did not end within %s of %s", p.Name, atMost, sig)
			_ = cmd.Process.Kill()
		}
	}
	<-ended
}

// End kills the process permanently and waits for its goroutines.
func (p *Process) End() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.Kill()
	p.watches.Wait()
}

// Freeze suspends the process as a debugger or a hypervisor would. It returns
// when the process is suspended. The returned function is Thaw. If the process
// has already ended, Freeze has no effect.
func (p *Process) Freeze() (thaw func()) {
	cmd, ended := p.current()
	_ = cmd.Process.Signal(syscall.SIGSTOP) // it may have ended already
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for State(cmd.Process.Pid) != "T" {
		select {
		case <-ended:
			return p.Thaw
		case <-tick.C:
		}
	}
	return p.Thaw
}

// Thaw resumes a frozen process.
func (p *Process) Thaw() {
	cmd, _ := p.current()
	_ = cmd.Process.Signal(syscall.SIGCONT) // it may have ended already
}

// Signal sends a signal to a process that must be running.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	cmd, _ := p.current()
	if err := cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s to %s: %v", sig, p.Name, err)
	}
}

// Argv returns the command line of the process.
func (p *Process) Argv() []string { return p.command.Argv }

// Pid returns the process ID of the most recently started program.
func (p *Process) Pid() int {
	cmd, _ := p.current()
	return cmd.Process.Pid
}

// Log returns everything that the process printed. If Split is set, the
// standard output is not included.
func (p *Process) Log() string { return p.read(p.LogFile) }

// Out returns the standard output of a process with Split set.
func (p *Process) Out() string { return p.read(p.OutFile) }

func (p *Process) read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Error(err)
	}
	return string(data)
}

// Logged reports whether the process's log contains a text.
func (p *Process) Logged(text string) bool { return strings.Contains(p.Log(), text) }

// CPU returns the processor time that the process has used.
func (p *Process) CPU() time.Duration { return ticks(p.Pid(), 11, 12) }

// ChildrenCPU returns the processor time of the process's children that have ended and been waited for, with that of their own
// children.
func (p *Process) ChildrenCPU() time.Duration { return ticks(p.Pid(), 13, 14) }

// Children returns the process IDs of the process's children, including those that have ended but were not waited for.
func (p *Process) Children() (pids []int) {
	const parent = 1 // field of `stat`
	own := strconv.Itoa(p.Pid())
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(file))
		if fields := stat(pid); err == nil && len(fields) > parent && fields[parent] == own {
			pids = append(pids, pid)
		}
	}
	return pids
}

// `ticks` returns the sum of two fields of `stat`, the user and the system time.
func ticks(pid, user, system int) time.Duration {
	fields := stat(pid)
	ticks := 0
	for _, i := range []int{user, system} { // in hundredths of a second
		if i < len(fields) {
			n, _ := strconv.Atoi(fields[i])
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Memory returns the current and the peak resident memory of the process, in
// bytes.
func (p *Process) Memory() (now, peak int64) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid())) // empty if the process has ended
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak
}

// State returns a process's state letter from proc(5), or "" if the process has
// ended.
func State(pid int) string {
	if fields := stat(pid); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// `stat` returns the fields of /proc/PID/stat that follow the process name. The
// process name and the fields before it are left out, because the name may
// contain any character.
func stat(pid int) []string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty if the process has ended
	_, after, _ := strings.Cut(string(data), ") ")
	return strings.Fields(after)
}
