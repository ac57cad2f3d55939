//go:build linux

package main

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A supervisor can serve several seats, one after another. The kernel keeps a job's isolation in the thread that forks the job: the mount
// namespace, the capabilities, the filter of system calls, the scope and the keyring. Each job has a thread of its own, which ends with
// the job, so nothing of a seat reaches the next one. What belongs to the whole process is set back by the method `leaveSeat`. A
// supervisor that cannot set something back ends with its seat; see the method `mayServeAnother`.

// maxSeats is the number of seats after which a supervisor ends in any case. It bounds what a leak could do.
const maxSeats = 200

// The type `process` holds what lives longer than a seat.
type process struct {
	again      bool     // the agent may have another seat for this process
	served     int      // number of seats so far
	timer      int      // timerfd on CLOCK_BOOTTIME
	wake       int      // eventfd for signals
	busy       *parking // the files that wake the loop of a seat
	idle       *parking // the files that wake a process without a seat; nil if it does not wait for one
	oomScore   []byte
	charged    seat.Charged   // the limit of processor time that this process is under; the job's thread of the current seat uses it
	buffer     [32 << 10]byte // for the output of the current job
	terminated atomic.Bool    // this process received SIGTERM
	seat       atomic.Pointer[supervisor]
}

func newProcess(again bool) (*process, error) {
	p := &process{again: again}
	_, _ = syscall.Setsid() // EPERM means that the agent has already done this
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return nil, os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	var err error
	if p.timer, err = timerfd(); err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	if p.wake, err = eventfd(); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if p.busy, err = newParking(p.timer, p.wake); err != nil {
		return nil, err
	}
	if again {
		if p.idle, err = newParking(seat.NextFD, p.wake); err != nil {
			return nil, err
		}
	}
	// Register for signals before the start of a job; otherwise the end of a very short job would be missed.
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	go p.forward(c)
	return p, nil
}

// The method `forward` wakes the loop for every signal. SIGHUP and SIGINT are caught and then discarded. They are not
// set to be ignored, because the job would inherit ignored signals.
func (p *process) forward(c <-chan os.Signal) {
	for sig := range c {
		if sig == syscall.SIGTERM {
			p.terminated.Store(true)
			if s := p.seat.Load(); s != nil {
				s.terminated.Store(true)
			}
		}
		wakeUp(p.wake)
	}
}

// The method `startJob` starts the job on a thread of its own. Pdeathsig takes effect when the forking thread ends, so the thread waits
// until the job is over. The goroutine never unlocks the thread, so the thread ends with it, and the job's isolation ends with the thread.
func (s *supervisor) startJob() {
	runtime.LockOSThread()
	start := s.spawn
	if s.order.Container.Runtime != "" {
		start = s.spawnContainer
	}
	s.spawned(start())
	for {
		select {
		case x := <-s.orders:
			s.startBeside(x)
			continue
		case <-s.over:
		}
		for len(s.orders) > 0 { // nobody adds more
			x := <-s.orders
			closeFiles(x.files[:])
		}
		return
	}
}

// noNewPrivs keeps the processes of this thread from gaining privileges through exec.
func noNewPrivs() error {
	return os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", prctl(prSetNoNewPrivs, 1))
}

const oomScoreFile = "/proc/self/oom_score_adj"

func (p *process) lowerOOMScore() {
	if p.oomScore == nil {
		score, _ := seat.ReadFile(oomScoreFile)
		p.oomScore = bytes.TrimSpace(score)
	}
	_ = seat.WriteFile(oomScoreFile, []byte("-500"), 0, 0)
}

// mayServeAnother reports whether this process is fit for another seat. The job must have ended by itself, and must not have had anything
// that stays with the process: its secrets, a limit of the process itself, or a cgroup that the process cannot leave. A file system of
// the job's own, and one that it shared, are released when the process ends, so a process with such a job ends too.
func (s *supervisor) mayServeAnother(outcome seat.Outcome) bool {
	p, o := s.process, &s.order
	return p.again && p.served+1 < maxSeats && !p.terminated.Load() && outcome == seat.Exited && !s.fenced && !s.stuck.Load() &&
		o.Contained() && o.SecretCount == 0 && !o.PidsByUser && o.Sandbox.Disk() == "" && o.Sandbox.Shm == "" && o.Container.Runtime == ""
}

// leaveSeat sets back what belongs to the whole process, and offers the process to the agent for another seat. It returns false if that
// fails, for example because the agent is gone. The order matters: when the lock is free, the seat counts as ended, so the process must
// have left the seat's cgroup before.
func (s *supervisor) leaveSeat(used time.Duration) bool {
	p := s.process
	if len(p.oomScore) == 0 || seat.WriteFile(oomScoreFile, p.oomScore, 0, 0) != nil ||
		arm(p.timer, 0) != nil || s.leaveGroups(used) != nil {
		return false
	}
	if syscall.Sendto(seat.NextFD, []byte(seat.Idle), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, nil) != nil {
		return false
	}
	p.served++
	p.seat.Store(nil)
	const null = 0 // standard input is /dev/null, because the job had no secrets
	if syscall.Dup3(null, seat.LockFD, syscall.O_CLOEXEC) != nil {
		return false
	}
	for len(s.conns) > 0 {
		s.hangUp(s.conns[0])
	}
	for len(s.execs) > 0 {
		s.dropExec(s.execs[0])
	}
	_ = syscall.Close(s.listen)
	if s.memory >= 0 {
		_ = syscall.Close(s.memory)
	}
	close(s.over)
	_ = syscall.Dup3(null, 2, 0)
	return syscall.Dup3(null, seat.ReadyFD, syscall.O_CLOEXEC) == nil
}

// wholeCore is the limit of processor time, in thousandths of a core, below which a supervisor in a slot is outside of the limit between
// two seats. What it does for the next seat would take more of a smaller limit than a job could ignore.
const wholeCore = 1000

// leaveGroups takes this process out of the cgroups of a seat, except in a slot. `used` is the processor time of the job.
func (s *supervisor) leaveGroups(used time.Duration) error {
	o, charged := &s.order, &s.process.charged
	if !o.InSlot {
		*charged = seat.Charged{}
		return o.LeaveGroups()
	}
	if o.CPUGroup == "" {
		return nil
	}
	if o.Limits.MilliCPU < wholeCore {
		charged.Quota = -1
		return o.Uncharge()
	}
	// The job may have used up the limit of the current period, for which the next job would have to wait. Setting the limit anew ends that.
	if used >= time.Duration(seat.CPUQuota(o.Limits.MilliCPU))*time.Microsecond {
		charged.Quota = -1
	}
	return nil
}

// nextSeat waits for the next seat and returns its directory. It ends the process if the agent is gone or wants no more of it.
func (p *process) nextSeat() string {
	for {
		fds := []pollFD{{fd: seat.NextFD, events: pollIn}, {fd: int32(p.wake), events: pollIn}}
		if p.idle.wait() != nil {
			os.Exit(1)
		}
		if err := poll(fds, 0); err != nil && err != syscall.EINTR || p.terminated.Load() {
			os.Exit(0)
		}
		if fds[1].revents != 0 {
			drain(p.wake)
			reapOrphans()
		}
		if fds[0].revents != 0 {
			return receiveSeat()
		}
	}
}

// reapOrphans collects the exit status of processes of the last job that the kernel had not reported before the job's end.
func reapOrphans() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil && err != syscall.EINTR || err == nil && pid <= 0 {
			return
		}
	}
}

// receiveSeat reads the directory and the files of the next seat. The files replace those of the last seat.
func receiveSeat() string {
	var dir [4 << 10]byte
	control := make([]byte, syscall.CmsgSpace(4*seat.NextFiles))
	n, controlled, _, _, err := syscall.Recvmsg(seat.NextFD, dir[:], control, syscall.MSG_CMSG_CLOEXEC|syscall.MSG_DONTWAIT)
	if err != nil || n == 0 { // the agent is gone, or wants no more of this process
		os.Exit(0)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:controlled])
	if err != nil || len(messages) != 1 {
		os.Exit(1)
	}
	files, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(files) != seat.NextFiles {
		os.Exit(1)
	}
	for i, to := range []int{2, seat.ReadyFD, seat.LockFD} {
		if syscall.Dup3(files[i], to, syscall.O_CLOEXEC) != nil {
			os.Exit(1)
		}
		_ = syscall.Close(files[i])
	}
	showSeat(string(dir[:n]))
	return string(dir[:n])
}

// showSeat writes the seat's directory over this process's argument, so that a list of processes shows the seat. A longer name is cut.
func showSeat(dir string) {
	argument := unsafe.Slice(unsafe.StringData(os.Args[1]), len(os.Args[1]))
	clear(argument[copy(argument, dir):])
}
