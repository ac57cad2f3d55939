package robustness_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program on a machine, kept alive as a service manager would:
// unless a fault holds it down, it is started again when it ends.
type process struct {
	t    testing.TB
	name string
	on   *machine
	log  string
	path string
	args []string
	env  []string

	mu    sync.Mutex
	cmd   *exec.Cmd
	held  bool // down until it is let go
	extra []string
	ended chan struct{}
	quit  bool
	wg    sync.WaitGroup
}

// restartDelay is that of a service manager.
const restartDelay = 300 * time.Millisecond

func start(t testing.TB, on *machine, logs, name, path string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, on: on, log: filepath.Join(logs, name+".log"), path: path, args: args, env: env}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawn()
	return p
}

// spawn starts the program; the caller holds p.mu.
func (p *process) spawn() {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer log.Close()
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + p.on.name, p.path}, p.args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.on.disk
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.on.disk}, p.env...), p.extra...)
	if err := cmd.Start(); err != nil {
		p.t.Errorf("start %s: %v", p.name, err)
		return
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	p.wg.Go(func() {
		_ = cmd.Wait() // how it ended is the faults' doing; its log tells the rest
		close(ended)
		<-time.After(restartDelay)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cmd == cmd && !p.held && !p.quit {
			p.spawn()
		}
	})
}

// down kills the process and keeps it down until up.
func (p *process) down(sig syscall.Signal) {
	p.mu.Lock()
	p.held = true
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	_ = cmd.Process.Signal(sig) // gone already is as good
	if sig != syscall.SIGKILL {
		select { // a graceful end takes its time, but not for ever
		case <-ended:
		case <-time.After(20 * time.Second):
			p.t.Errorf("%s did not end within 20s of %s", p.name, sig)
			_ = cmd.Process.Kill()
		}
	}
	<-ended
}

// up starts it again, with more in its environment.
func (p *process) up(extra ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held || p.quit {
		return
	}
	p.held, p.extra = false, extra
	p.spawn()
}

// freeze stops the process as a hypervisor would; the returned function lets
// it go on.
func (p *process) freeze() func() {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	_ = cmd.Process.Signal(syscall.SIGSTOP) // gone already is as good
	return func() { _ = cmd.Process.Signal(syscall.SIGCONT) }
}

// end kills the process for good.
func (p *process) end() {
	p.mu.Lock()
	p.quit = true
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	p.mu.Unlock()
	p.wg.Wait()
}
