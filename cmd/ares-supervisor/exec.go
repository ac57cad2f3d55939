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

// A user can run commands beside the job; see seat.Exec. The job's thread forks them, because they inherit the job's isolation from it. They
// are in the job's cgroup, so they end with the job, and the end of the job is verified for them too. Their input and output are the agent's
// files: nothing of it passes through the supervisor.
//
// A command ends when the agent closes its connection, which it also does by ending. The command must not outlive the user who looks at it.

// hangUpTime is the time between SIGHUP and SIGKILL for a command whose user is gone.
const hangUpTime = 5 * time.Second

// An `execution` is one command beside the job.
type execution struct {
	conn  int                 // the connection on which it was requested, -1 if the agent has closed it; only the loop uses it
	files [seat.ExecFiles]int // used by the job's thread, which closes them
	until seat.BootTime       // the command must not be forked at this time or later (R4)

	// The lock supervisor.mu guards these fields.
	pid    int
	failed string // why it was not started
	isDone bool   // it was started, or has failed

	// Only the loop uses these fields.
	told   bool          // the agent knows that it was started
	killAt seat.BootTime // 0 if not planned
}

// refusesExec returns why a command cannot run beside the job now, or "" if it can.
func (s *supervisor) refusesExec(now seat.BootTime) string {
	s.decide(now)
	switch {
	case s.start == nil:
		return "it is still starting: try again in a moment"
	case !s.running() || s.outcome != "":
		return "it is ending"
	case len(s.execs) >= seat.MaxExecs:
		return "it has " + strconv.Itoa(seat.MaxExecs) + " sessions already, which is the limit: end one of them first"
	}
	return ""
}

// requestExec accepts a command for the job's thread. The connection then belongs to the command.
func (s *supervisor) requestExec(fd int, files []int, now seat.BootTime) {
	why := s.refusesExec(now)
	if len(files) != seat.ExecFiles {
		why = "the request has a wrong number of files"
	}
	if why != "" {
		closeFiles(files)
		s.reply(fd, "refused "+why)
		return
	}
	x := &execution{conn: fd, until: s.order.DecideAt(s.renewed)}
	copy(x.files[:], files)
	for i, c := range s.conns {
		if c == fd {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			break
		}
	}
	s.execs = append(s.execs, x)
	s.orders <- x // it has room for all of them
}

// startBeside forks a command, on the job's thread.
func (s *supervisor) startBeside(x *execution) {
	pid, err := s.spawnBeside(x)
	closeFiles(x.files[:])
	s.mu.Lock()
	s.forking = false
	x.isDone, x.pid = true, pid
	if err != nil {
		x.failed = err.Error()
	}
	s.mu.Unlock()
	wakeUp(s.wake)
}

func (s *supervisor) spawnBeside(x *execution) (int, error) {
	cmd, err := readExec(x.files[0])
	if err != nil {
		return 0, err
	}
	o := &s.order
	if err = s.joinContainer(); err != nil {
		return 0, err
	}
	attr, group, err := s.attributes()
	if err != nil {
		return 0, err
	}
	defer closeFiles([]int{group})
	if cmd.Terminal {
		attr.Setctty, attr.Ctty = true, 0
	}
	if len(cmd.Groups) > 0 && o.User != nil {
		attr.Credential = credential(o, cmd.Groups)
	}
	env := append(environment(o), cmd.Env...)
	if s.hasSecretFiles {
		env = append(env, secretsEnv+o.SecretsDir)
	}
	var path string
	if !o.Container.Root { // otherwise the command's own process looks for it
		err = s.asUser(func() (err error) {
			path, err = lookPath(cmd.Argv[0], o.Dir, env)
			return err
		})
	}
	if err != nil {
		return 0, errors.New(s.describeBeside(err.Error()))
	}
	// What came before may hang, for example on a network disk. From here on, the end of the job waits for this thread, and kills what it
	// has forked.
	if err = s.beginFork(x.until); err != nil {
		return 0, err
	}
	s.onMachine(func() { _ = seat.WriteFile(oomScoreFile, s.process.oomScore, 0, 0) }) // the command inherits it
	if o.Container.Root {
		pid, err := s.spawnRootBeside(x, &cmd, attr, env)
		s.onMachine(s.process.lowerOOMScore)
		if err != nil {
			return 0, errors.New(s.describeBeside(err.Error()))
		}
		return pid, nil
	}
	pid, machine, err := s.fork(path, cmd.Argv, &syscall.ProcAttr{
		Dir: o.Dir, Env: env, Sys: attr, Files: []uintptr{uintptr(x.files[1]), uintptr(x.files[2]), uintptr(x.files[3])},
	})
	s.onMachine(s.process.lowerOOMScore)
	if machine != nil {
		return 0, errors.New("set the command apart: " + machine.Error())
	}
	if err != nil {
		return 0, errors.New(s.describeBeside(explain(path, err)))
	}
	return pid, nil
}

// beginFork announces a fork to the loop. It fails if the job is over, or if the lease has run out in the meantime (R4).
func (s *supervisor) beginFork(until seat.BootTime) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.late.Load() || seat.Now() >= until {
		return errors.New("the job is ending")
	}
	s.forking = true
	return nil
}

// readExec reads a command from the agent's pipe, which holds all of it already.
func readExec(fd int) (seat.Exec, error) {
	var b [seat.MaxExec]byte
	n := 0
	for n < len(b) {
		k, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return seat.Exec{}, os.NewSyscallError("read", err)
		}
		if k == 0 {
			break
		}
		n += k
	}
	return seat.DecodeExec(b[:n])
}

func (s *supervisor) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// closeExecs keeps the job's thread from forking commands from now on. It reports whether a fork is under way.
func (s *supervisor) closeExecs() (forking bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.forking
}

// tellExecs tells the agent about commands that were started or could not be started.
func (s *supervisor) tellExecs() {
	for _, x := range append([]*execution(nil), s.execs...) {
		if !x.told {
			s.tellStart(x)
		}
	}
}

func (s *supervisor) tellStart(x *execution) {
	s.mu.Lock()
	pid, failed, isDone := x.pid, x.failed, x.isDone
	s.mu.Unlock()
	switch {
	case !isDone:
		return
	case failed != "":
		s.reply(x.conn, "error "+failed)
		s.dropExec(x)
		return
	}
	x.told = true
	s.reply(x.conn, "ok "+strconv.Itoa(pid))
	if x.conn < 0 { // the agent left while the command was being started
		s.hangUpExec(x)
	}
}

// endedExec records the end of a process that may be a command. The caller does not hold s.mu.
func (s *supervisor) endedExec(pid int, ws syscall.WaitStatus) {
	for _, x := range s.execs {
		if x.pid != pid {
			continue
		}
		if !x.told {
			s.tellStart(x)
		}
		if s.ended || s.isClosed() || s.isContainerEnding() {
			s.reply(x.conn, "over")
		} else if ws.Signaled() {
			s.reply(x.conn, "signaled "+strconv.Itoa(int(ws.Signal())))
		} else {
			s.reply(x.conn, "exited "+strconv.Itoa(ws.ExitStatus()))
		}
		s.leaveGroup(x)
		s.dropExec(x)
		return
	}
}

// dropExec forgets a command that has ended, or that never ran.
func (s *supervisor) dropExec(x *execution) {
	if x.conn >= 0 {
		_ = syscall.Close(x.conn)
		x.conn = -1
	}
	for i, other := range s.execs {
		if other == x {
			s.execs = append(s.execs[:i:i], s.execs[i+1:]...)
			return
		}
	}
}

// hangUpExec ends a command whose connection is closed: SIGHUP now, SIGKILL later. The command is not reaped yet, so its PID is its own.
func (s *supervisor) hangUpExec(x *execution) {
	if x.conn >= 0 {
		_ = syscall.Close(x.conn)
		x.conn = -1
	}
	if x.told {
		_ = syscall.Kill(-x.pid, syscall.SIGHUP)
		_ = syscall.Kill(-x.pid, syscall.SIGCONT) // a stopped process would not notice
		x.killAt = seat.Now().Add(hangUpTime)
	}
}

// killExecs kills the commands whose time is over.
func (s *supervisor) killExecs(now seat.BootTime) {
	for _, x := range s.execs {
		if x.killAt != 0 && now >= x.killAt {
			_ = syscall.Kill(-x.pid, syscall.SIGKILL)
			x.killAt = 0
		}
	}
	s.killLeft(now)
}

// execOn returns the command whose connection has the given file descriptor, or nil.
func (s *supervisor) execOn(fd int) *execution {
	for _, x := range s.execs {
		if x.conn == fd {
			return x
		}
	}
	return nil
}

// serveExec handles a message on the connection of a command: a signal for its process group, or the end.
func (s *supervisor) serveExec(x *execution) {
	var buf [64]byte
	n, _, err := syscall.Recvfrom(x.conn, buf[:], syscall.MSG_DONTWAIT)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return
	}
	if err != nil || n == 0 {
		s.hangUpExec(x)
		return
	}
	verb, rest, _ := strings.Cut(string(buf[:n]), " ")
	number, err := strconv.Atoi(rest)
	if verb == "signal" && err == nil && number > 0 && number <= 64 && x.told {
		_ = syscall.Kill(-x.pid, syscall.Signal(number))
	}
}

// The method `reply` sends a message to an agent that may have left.
func (s *supervisor) reply(fd int, message string) {
	if fd >= 0 {
		_ = syscall.Sendto(fd, []byte(message), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, nil)
	}
}

func closeFiles(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
}

// filesOf returns the files that came with a message.
func filesOf(control []byte) []int {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	var files []int
	for i := range messages {
		if fds, err := syscall.ParseUnixRights(&messages[i]); err == nil {
			files = append(files, fds...)
		}
	}
	return files
}
