//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The type `supervisor` is the state of one seat's supervisor. The supervisor has three threads. The main thread runs the loop, which
// makes decisions, sends signals and answers requests. The loop never accesses a disk while the job may be alive, so that a slow disk
// cannot delay a deadline. The job's thread starts the job and must then stay alive; see the method `startJob`. The pump thread
// stores the job's output.
type supervisor struct {
	process    *process
	order      seat.Order
	timer      int // timerfd on CLOCK_BOOTTIME
	wake       int // eventfd for signals, the start, and the end of the output
	memory     int // eventfd that reports that the job is out of memory; -1 if no notification is needed
	listen     int
	conns      []int // open connections, oldest first
	out        output
	terminated atomic.Bool   // the supervisor itself received SIGTERM
	late       atomic.Bool   // the same as fenced, for the job's thread
	stuck      atomic.Bool   // the job's thread could not leave a cgroup of the job
	over       chan struct{} // closed when the job's thread may end

	// Only the job's thread uses these fields.
	hasSecretFiles bool
	member         membership

	mu   sync.Mutex
	born *birth // result of the start; nil until then
	// See the file exec.go. Invariant: a fork begins only while closed is false.
	forking bool // the job's thread is forking a command beside the job
	closed  bool // no command may be forked any more
	orders  chan *execution

	// Only the loop uses these fields.
	start    *birth
	ended    bool // the main process is dead and reaped
	status   syscall.WaitStatus
	usage    syscall.Rusage
	renewed  seat.BootTime
	fenced   bool // final; later renewals do not count
	starved  bool // the job reached its memory limit
	outcome  seat.Outcome
	reason   string
	termAt   seat.BootTime // 0 if not planned
	killAt   seat.BootTime
	termSent bool
	patience time.Duration // delay between two checks of a dying cgroup
	execs    []*execution  // commands beside the job
	left     []leftGroup
	input    input
}

// The type `birth` is the result of starting the job.
type birth struct {
	pid  int // 0 if the job never ran
	at   seat.BootTime
	wall time.Time
	// input is how the supervisor writes to the job.
	input input
	// These fields are set if the job never ran.
	outcome seat.Outcome
	reason  string
}

func (s *supervisor) spawned(b birth) {
	s.mu.Lock()
	s.born = &b
	s.mu.Unlock()
	wakeUp(s.wake)
}

func (s *supervisor) loop() {
	for {
		s.adopt()
		s.tellExecs()
		s.reap()
		s.decide(seat.Now())
		if s.act(seat.Now()) {
			break
		}
		if err := arm(s.timer, s.next()); err != nil {
			panic("timerfd_settime: " + err.Error())
		}
		s.wait()
	}
}

// The method `adopt` lets the loop take over the job that the job's thread has started.
func (s *supervisor) adopt() {
	if s.start != nil {
		return
	}
	s.mu.Lock()
	s.start = s.born
	s.mu.Unlock()
	if s.start == nil || s.start.pid == 0 {
		return
	}
	s.input = s.start.input
	// Lower the OOM score after the start, so that the job does not inherit it. When memory runs out, the kernel should kill the
	// job and not the supervisor. The supervisor must report the job's end.
	s.process.lowerOOMScore()
	s.tell("spawned " + strconv.Itoa(s.start.pid))
}

// The method `reap` collects the exit status of the job's main process and of all orphaned processes, which become children of this
// subreaper. The method does nothing before the start is complete, because until then ForkExec itself may wait for its child.
func (s *supervisor) reap() {
	if s.start == nil {
		return
	}
	for {
		pid, ws, ru, err := s.reapOne()
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == s.start.pid && !s.ended {
			s.ended, s.status, s.usage = true, ws, ru
			continue
		}
		s.endedExec(pid, ws)
	}
}

// reapOne collects the exit status of one process. While the job's thread forks a command, it collects only that of the job's main process,
// because the thread itself waits for its child. The lock keeps a fork from beginning in between.
func (s *supervisor) reapOne() (pid int, ws syscall.WaitStatus, ru syscall.Rusage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	which := -1
	if s.forking {
		if which = s.start.pid; s.ended {
			return 0, ws, ru, nil
		}
	}
	pid, err = syscall.Wait4(which, &ws, syscall.WNOHANG, &ru)
	return pid, ws, ru, err
}

// The method `decide` compares the deadlines with the clock and plans the actions that are due.
func (s *supervisor) decide(now seat.BootTime) {
	if !s.fenced && now >= s.order.DecideAt(s.renewed) {
		s.fenced = true
		s.late.Store(true)
		_ = s.order.Uncharge() // if this fails, the supervisor goes on within the limit
		s.end(seat.Fenced, "the lease was not renewed in time",
			s.order.TermAt(s.renewed), s.order.KillAt(s.renewed))
	}
	if at := s.maxRuntimeAt(); at != 0 && now >= at {
		s.end(seat.MaxRuntime, "ran longer than "+s.order.MaxRuntime.String(), at, now.Add(s.order.Grace))
	}
	if s.starved && s.running() {
		// When memory runs out, the kernel kills only one process. The job's other processes would wait for the killed
		// process, or continue without it.
		s.end(seat.OutOfMemory, s.outOfMemory(), 0, now)
	}
	if s.terminated.Load() && s.outcome != seat.Lost {
		s.end(seat.Lost, "the supervisor was told to terminate", now, now.Add(s.order.Grace))
	}
}

// The method `end` plans when the job gets SIGTERM and SIGKILL, and records the reason. The first reason determines the outcome,
// unless the job has already ended. If the job must end for several reasons, a later reason can only move the end to an earlier
// time.
func (s *supervisor) end(outcome seat.Outcome, reason string, term, kill seat.BootTime) {
	if s.outcome == "" && (!s.ended || outcome == seat.Lost) {
		s.outcome, s.reason = outcome, reason
	}
	if outcome == seat.Lost {
		s.terminated.Store(false)
	}
	s.termAt, s.killAt = earlier(s.termAt, term), earlier(s.killAt, kill)
}

// maxRuntimeAt returns the time at which the runtime limit is reached. The result is 0 if the job has no runtime
// limit, is not running, or is already being ended.
func (s *supervisor) maxRuntimeAt() seat.BootTime {
	if s.order.MaxRuntime == 0 || !s.running() || s.outcome != "" {
		return 0
	}
	return s.start.at.Add(s.order.MaxRuntime)
}

// The function `earlier` returns the earlier of two times. A time of 0 means never.
func earlier(a, b seat.BootTime) seat.BootTime {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// The method `act` sends the signals that are due, and reports whether all processes of the job are dead.
func (s *supervisor) act(now seat.BootTime) bool {
	if s.running() && !s.termSent && s.termAt != 0 && now >= s.termAt {
		s.termSent = true
		// The main process is not reaped yet, so the process group ID cannot have been reused.
		_ = syscall.Kill(-s.start.pid, syscall.SIGTERM)
		s.endDeafInit()
	}
	s.killExecs(now)
	over := s.start != nil && !s.running()
	if !over && (s.killAt == 0 || now < s.killAt) {
		s.patience = 0
		return false
	}
	s.patience = min(max(2*s.patience, time.Millisecond), 50*time.Millisecond)
	return s.killAll() && over
}

func (s *supervisor) running() bool { return s.start != nil && s.start.pid != 0 && !s.ended }

// killAll kills all remaining processes of the job, and reports whether none were left.
func (s *supervisor) killAll() bool {
	forking := s.closeExecs()
	if !s.order.Contained() {
		n, err := s.order.KillUncontained(os.Getpid())
		return err == nil && n == 0 && !forking
	}
	if s.start == nil || forking { // a program that is being loaded is not in the job's cgroup yet; see the method `enter`
		_, _ = seat.KillDescendants(os.Getpid())
	}
	job := s.jobGroup()
	populated, err := job.Populated()
	if err == nil && !populated {
		return !forking
	}
	// gofail: var supervisorBeforeKill struct{}
	_ = job.Kill() // tried again until the cgroup says that it is empty
	populated, err = job.Populated()
	return err == nil && !populated && !forking
}

func (s *supervisor) jobGroup() seat.Cgroup {
	return seat.Cgroup(s.order.Cgroup + "/" + seat.JobGroup)
}

// The method `next` returns the time of the next decision or action, or 0 if nothing is planned. The result must not be the time of
// an action that is impossible now, because the timer would then fire endlessly.
func (s *supervisor) next() seat.BootTime {
	var at seat.BootTime
	if !s.fenced {
		at = s.order.DecideAt(s.renewed)
	}
	at = earlier(at, s.maxRuntimeAt())
	if s.running() && !s.termSent {
		at = earlier(at, s.termAt)
	}
	if s.patience == 0 {
		at = earlier(at, s.killAt)
	}
	for _, x := range s.execs {
		at = earlier(at, x.killAt)
	}
	for _, g := range s.left {
		at = earlier(at, g.killAt)
	}
	return at
}

// The method `wait` sleeps until an action is due, and answers clients in the meantime.
func (s *supervisor) wait() {
	fds := make([]pollFD, 0, 4+maxConns+seat.MaxExecs)
	for _, fd := range append([]int{s.timer, s.wake, s.memory, s.listen}, s.conns...) { // poll skips -1
		fds = append(fds, pollFD{fd: int32(fd), events: pollIn})
	}
	for _, x := range s.execs {
		fds = append(fds, pollFD{fd: int32(x.conn), events: pollIn})
	}
	if s.patience == 0 {
		if err := s.process.busy.wait(); err != nil {
			panic("epoll: " + err.Error())
		}
	}
	if err := poll(fds, int64(s.patience)); err != nil {
		if errors.Is(err, syscall.EINTR) {
			return
		}
		panic("ppoll: " + err.Error())
	}
	for i, p := range fds {
		switch {
		case p.revents == 0:
		case i < 2:
			drain(int(p.fd))
		case i == 2:
			drain(int(p.fd))
			s.starved = true
		case i == 3:
			s.accept()
		default:
			s.serve(int(p.fd))
		}
	}
}

// The method `finish` stores the result once all processes are dead. It ends the supervisor, or returns if the supervisor may serve
// another seat.
func (s *supervisor) finish() {
	s.input.close()
	settled := s.out.settle()
	removeSecrets(&s.order)
	r := s.result()
	if err := writeResult(&r, &s.out); err != nil {
		die("write result: " + err.Error())
	}
	s.tell("ended")
	if !settled || !s.mayServeAnother(r.Outcome) || !s.leaveSeat(r.CPU) {
		os.Exit(0)
	}
}

func (s *supervisor) result() seat.Result {
	r := seat.Result{
		Outcome: s.outcome, Reason: s.reason, ExitCode: -1, Ended: time.Now(),
		Contained: s.order.Contained(), LogDropped: s.out.dropped.Load(),
	}
	if s.start.pid == 0 {
		if r.Outcome == "" {
			r.Outcome, r.Reason = s.start.outcome, s.start.reason
		}
		return r
	}
	if r.Outcome == "" {
		r.Outcome = seat.Exited
		if s.order.MemoryGroup != "" && seat.OOMKills(s.order.MemoryGroup) > 0 && (s.status.Signaled() || s.status.ExitStatus() != 0) {
			r.Outcome, r.Reason = seat.OutOfMemory, s.outOfMemory()
		}
	}
	r.Started = s.start.wall
	if s.status.Signaled() {
		r.Signal = s.status.Signal()
	} else {
		r.ExitCode = s.status.ExitStatus()
	}
	r.CPU = time.Duration(s.usage.Utime.Nano() + s.usage.Stime.Nano())
	r.PeakMemory = s.usage.Maxrss << 10
	if r.Contained {
		if cpu := s.jobGroup().CPU(); cpu > 0 {
			r.CPU = cpu
		}
		if peak := s.jobGroup().PeakMemory(); peak > 0 {
			r.PeakMemory = peak
		}
	}
	if peak := seat.Cgroup(s.order.MemoryGroup).PeakMemory(); s.order.MemoryGroup != "" && peak > 0 {
		r.PeakMemory = peak
	}
	return r
}

func (s *supervisor) outOfMemory() string {
	return "out of memory: limit " + strconv.FormatInt(s.order.Limits.MemoryMB, 10) + " MB"
}

// The method `tell` writes a line to the agent process that started this supervisor. That process may have ended.
func (s *supervisor) tell(line string) {
	_, _ = syscall.Write(seat.ReadyFD, []byte(line+"\n"))
}
