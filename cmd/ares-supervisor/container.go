//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A job in an image is started by an OCI runtime: `create` makes the container with a first process that waits, and `start` lets it go on.
// In between, this supervisor verifies that the process is in the job's cgroup, which is what the end of the job is verified with. The
// process becomes a child of this supervisor, because the supervisor is a subreaper and the runtime ends. So everything else is as for
// other jobs.

// spawnContainer starts the job's container. Like the method `spawn`, it runs on the job's thread and may hang.
func (s *supervisor) spawnContainer() birth {
	o := &s.order
	if err := s.order.Charge(&s.process.charged); err != nil {
		return unable("limit the job", err)
	}
	if err := errors.Join(setLimits(o), furnishNetwork(o), furnishContainer(o)); err != nil {
		return unable("prepare the container", err)
	}
	// The container inherits the scope from this thread, and so do commands beside it: they can send signals to each other.
	if o.Sandbox.Scoped {
		if err := enterScope(); err != nil {
			return unable("set the job apart", err)
		}
	}
	trees, why, err := s.openMounts()
	if err != nil {
		return unable("open the job's mounts", err)
	}
	if why != "" {
		return failed(why)
	}
	defer closeFiles(trees)
	if why = faultBefore(); why != "" {
		return failed(why)
	}
	f, err := openContainerFiles(o)
	if err != nil {
		return unable("make pipes for the container", err)
	}
	defer f.close()
	if err = s.runtime(f, "create", "--bundle", seat.BundleDir, "--pid-file", seat.ContainerPid, "--preserve-fds", strconv.Itoa(seat.InsideFiles), o.Key.String()); err != nil {
		return s.blame("create the container", err)
	}
	var pid int
	if onMachine(func() { pid, err = s.verifyContainer() }); err != nil {
		return s.blame("verify the container", err)
	}
	if err = s.verifyNetwork(strconv.Itoa(pid)); err != nil {
		return s.blame("verify the container", err)
	}
	if why, err = s.attachMounts(pid, trees); err != nil {
		return s.blame("attach the job's mounts", err)
	}
	if why != "" {
		return failed(s.apartToo(why))
	}
	// gofail: var supervisorBeforeStart struct{}

	// The last check of the clock (rule R4). If the loop has decided to end the job in the meantime, it kills the job's cgroup.
	now := seat.Now()
	if now >= o.DecideAt(o.RenewedAt) || s.late.Load() {
		// The loop kills the container.
		return birth{outcome: seat.Fenced, reason: errLate.Error()}
	}
	wall := time.Now()
	if err = s.runtime(nil, "start", o.Key.String()); err != nil {
		return s.blame("start the container", err)
	}
	if err = s.admitRoot(f, pid); err != nil {
		return s.blame("make the job's user root in the container (container_root)", err)
	}
	f.pass(s.insideOrder())
	if why = f.answer(); why != "" {
		return failed(s.apartToo(why))
	}
	o.Secrets = nil // only the job has them from now on
	read, in := f.job.take(o)
	s.out.begin(read, o.LogLimit, s.process.buffer[:])
	return birth{pid: pid, at: now, wall: wall, input: in}
}

// insideOrder returns what the first process of the container executes.
func (s *supervisor) insideOrder() []byte {
	o := &s.order
	in := seat.InsideOrder{Argv: o.Argv, Env: environment(o), Dir: o.Dir, Seccomp: o.Sandbox.Seccomp, UserNamespaces: o.Sandbox.UserNamespaces, Terminal: o.Terminal}
	return in.Encode()
}

// onMachine calls a function on another thread, which sees the machine's own mounts. The job's thread sees only one of the machine's cgroup
// file systems.
func onMachine(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// verifyContainer returns the PID of the container's first process, if it is in the job's cgroup. Otherwise the process is killed: its end,
// and that of its children, could not be verified.
func (s *supervisor) verifyContainer() (int, error) {
	b, err := seat.ReadFile(seat.ContainerPid)
	pid, bad := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || bad != nil || pid <= 1 {
		return 0, errors.New("the runtime " + s.order.Container.Runtime + " has not written the PID of the container: set a runtime with the command line of runc in images.runtime")
	}
	group := string(s.jobGroup())
	procs, err := seat.ReadFile(group + "/cgroup.procs")
	for line := range strings.SplitSeq(string(procs), "\n") {
		if line != strconv.Itoa(pid) {
			continue
		}
		for _, g := range s.order.Groups {
			if err := g.Take(pid); err != nil {
				return 0, errors.New("limit the job: " + err.Error())
			}
		}
		return pid, s.noteContainer(pid)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	_, _ = waitFor(pid)
	if err != nil {
		return 0, err
	}
	return 0, errors.New("the runtime " + s.order.Container.Runtime + " has put the container outside the job's cgroup " + group +
		", so the end of the job could not be verified: the job was not started; set another runtime in images.runtime")
}

// runtimeTime limits each call of the runtime. The user cannot stop a job whose start hangs, so an image must not be able to hold a seat.
var runtimeTime = 5 * time.Minute // changed only by a test

const sysPidfdSendSignal = 424

// The method `runtime` runs the OCI runtime and waits for it. The container gets the files.
func (s *supervisor) runtime(f *containerFiles, args ...string) error {
	path := s.order.Container.Runtime
	argv := append([]string{path, "--root", seat.RuntimeDir, "--log", seat.RuntimeLog}, args...)
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(null)
	files := []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	if f != nil {
		files = []uintptr{uintptr(f.job.stdin), uintptr(f.job.output), uintptr(f.job.output), uintptr(f.order[0]), uintptr(f.status[1])}
	}
	handle := -1
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: []string{"PATH=" + defaultPath, "HOME=/", "XDG_RUNTIME_DIR="}, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &handle},
	})
	if err != nil {
		return errors.New(path + ": " + err.Error())
	}
	killed := make(chan struct{})
	late := time.AfterFunc(runtimeTime, func() {
		_, _, _ = syscall.Syscall6(sysPidfdSendSignal, uintptr(handle), uintptr(syscall.SIGKILL), 0, 0, 0, 0)
		close(killed)
	})
	ws, err := waitFor(pid)
	inTime := late.Stop()
	if !inTime {
		<-killed
	}
	closeFD(&handle)
	if err != nil {
		return err
	}
	if ws.Exited() && ws.ExitStatus() == 0 {
		return nil
	}
	switch {
	case s.late.Load():
		return errLate
	case !inTime:
		return errors.New(path + " " + args[0] + ": it did not end within " + runtimeTime.String())
	}
	return errors.New(path + " " + args[0] + ": " + runtimeComplaint())
}

// runtimeComplaint returns the last line of the runtime's log.
func runtimeComplaint() string {
	b, _ := seat.ReadFile(seat.RuntimeLog)
	line := strings.TrimSpace(string(b))
	line = line[strings.LastIndexByte(line, '\n')+1:]
	if _, message, ok := strings.Cut(line, "msg="); ok { // the log's format is key="value"
		line = strings.ReplaceAll(strings.Trim(message, `"`), `\"`, `"`)
	}
	if line == "" {
		return "it failed without a message"
	}
	line = line[:min(len(line), 500)]
	if strings.Contains(line, "hook") {
		line += " (the hooks of a node's devices are in the CDI specifications in /etc/cdi and /var/run/cdi)"
	}
	return line
}

// containerFiles are the files of a container: those of the job, and pipes for its order and for the status of its start.
type containerFiles struct {
	job           *jobFiles
	order, status [2]int
}

func openContainerFiles(o *seat.Order) (*containerFiles, error) {
	job, err := openJobFiles(o)
	if err != nil {
		return nil, err
	}
	f := &containerFiles{job: job, order: [2]int{-1, -1}, status: [2]int{-1, -1}}
	for _, p := range []*[2]int{&f.order, &f.status} {
		if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

func (f *containerFiles) close() {
	if f.job != nil {
		f.job.close()
	}
	for _, p := range []*[2]int{&f.order, &f.status} {
		for i := range p {
			closeFD(&p[i])
		}
	}
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
	}
	*fd = -1
}

// The method `pass` sends the order to the container. It does not wait: the order may be larger than the pipe, and the container reads it
// as soon as it comes. If the container is killed, nobody has the other end, and the write fails.
func (f *containerFiles) pass(order []byte) {
	f.release()
	out := os.NewFile(uintptr(f.order[1]), "order")
	f.order[1] = -1
	go func() {
		_, _ = out.Write(order) // a part of an order starts nothing
		clear(order)
		_ = out.Close()
	}()
}

// The method `release` closes the container's ends of the pipes, once the container has them.
func (f *containerFiles) release() {
	closeFD(&f.order[0])
	closeFD(&f.status[1])
}

// The method `answer` waits until the command is executed, and returns "", or the reason why that was not possible.
func (f *containerFiles) answer() string { return f.read(seat.MaxReason) }

// The method `read` returns the next bytes that the container says, or fewer if it says no more.
func (f *containerFiles) read(limit int) string {
	b := make([]byte, limit)
	n := 0
	for n < len(b) {
		k, err := syscall.Read(f.status[0], b[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || k <= 0 {
			break
		}
		n += k
	}
	return string(b[:n])
}

// endDeafInit kills a container whose first process does not listen to SIGTERM. For every other process, SIGTERM then means its end, but
// the kernel ignores it for the first process of a PID namespace. Without this, every such job would run until the end of its grace period.
func (s *supervisor) endDeafInit() {
	if s.order.Container.Runtime == "" {
		return
	}
	b, err := seat.ReadFile("/proc/" + strconv.Itoa(s.start.pid) + "/status")
	if err != nil {
		return
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigIgn" && name != "SigCgt" {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if err != nil || bits&(1<<(syscall.SIGTERM-1)) != 0 {
			return
		}
	}
	_ = syscall.Kill(s.start.pid, syscall.SIGKILL)
}
