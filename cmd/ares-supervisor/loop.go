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

// A supervisor has three threads of work. The main thread starts the job and then only
// exists (see init). The loop decides, signals and answers; it never touches a disk while
// the job may live, so no slow disk delays a deadline. The pump stores the output.
type supervisor struct {
	order      seat.Order
	timer      int // timerfd on CLOCK_BOOTTIME
	wake       int // eventfd: signals, start, end of the output
	memory     int // eventfd: the job is out of memory; -1 where that needs no telling
	listen     int
	conns      []int // open connections, oldest first
	out        output
	terminated atomic.Bool // SIGTERM to the supervisor itself

	mu   sync.Mutex
	born *birth // how the start went; nil until then

	// The rest belongs to the loop.
	start    *birth
	ended    bool // the main process is dead and reaped
	status   syscall.WaitStatus
	usage    syscall.Rusage
	renewed  seat.BootTime
	fenced   bool // final: no renewal counts any more
	starved  bool // the kernel found no memory for the job within its limit
	outcome  seat.Outcome
	reason   string
	termAt   seat.BootTime // 0: not planned
	killAt   seat.BootTime
	termSent bool
	patience time.Duration // between two looks at a dying cgroup
}

// birth is how the start of the job went.
type birth struct {
	pid  int // 0: it never ran
	at   seat.BootTime
	wall time.Time
	// If it never ran:
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
	s.finish()
}

// adopt takes over what the main thread has started.
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
	// Only now, so that the job does not inherit it: memory runs out because of jobs, and
	// the kernel should pick the job, not the one that reports its end.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-500"), 0)
	s.tell("spawned " + strconv.Itoa(s.start.pid))
}

// reap collects the job's main process and all orphans, which come to us as subreaper.
// Not before the start is over: the fork itself waits for its child.
func (s *supervisor) reap() {
	if s.start == nil {
		return
	}
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, &ru)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == s.start.pid {
			s.ended, s.status, s.usage = true, ws, ru
		}
	}
}

// decide is the arithmetic of the deadlines.
func (s *supervisor) decide(now seat.BootTime) {
	if !s.fenced && now >= s.order.DecideAt(s.renewed) {
		s.fenced = true
		s.end(seat.Fenced, "the lease was not renewed in time",
			s.order.TermAt(s.renewed), s.order.KillAt(s.renewed))
	}
	if at := s.maxRuntimeAt(); at != 0 && now >= at {
		s.end(seat.MaxRuntime, "ran longer than "+s.order.MaxRuntime.String(), at, now.Add(s.order.Grace))
	}
	if s.starved && s.running() {
		// The kernel kills one process. The others would wait for it, or go on without.
		s.end(seat.OutOfMemory, s.outOfMemory(), 0, now)
	}
	if s.terminated.Load() && s.outcome != seat.Lost {
		s.end(seat.Lost, "the supervisor was told to terminate", now, now.Add(s.order.Grace))
	}
}

// end plans the death. The first cause is the outcome, unless the job was over already; a
// later cause can only make it come sooner.
func (s *supervisor) end(outcome seat.Outcome, reason string, term, kill seat.BootTime) {
	if s.outcome == "" && (!s.ended || outcome == seat.Lost) {
		s.outcome, s.reason = outcome, reason
	}
	if outcome == seat.Lost {
		s.terminated.Store(false)
	}
	s.termAt, s.killAt = earlier(s.termAt, term), earlier(s.killAt, kill)
}

// maxRuntimeAt is when the time limit is up; 0 if there is none or it no longer matters.
func (s *supervisor) maxRuntimeAt() seat.BootTime {
	if s.order.MaxRuntime == 0 || !s.running() || s.outcome != "" {
		return 0
	}
	return s.start.at.Add(s.order.MaxRuntime)
}

// earlier is the minimum, where 0 is never.
func earlier(a, b seat.BootTime) seat.BootTime {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// act signals what is due, and reports whether everything is dead.
func (s *supervisor) act(now seat.BootTime) bool {
	if s.running() && !s.termSent && s.termAt != 0 && now >= s.termAt {
		s.termSent = true
		// The main process is not reaped, so the group's number is still its own.
		_ = syscall.Kill(-s.start.pid, syscall.SIGTERM)
	}
	over := s.start != nil && !s.running()
	if !over && (s.killAt == 0 || now < s.killAt) {
		s.patience = 0
		return false
	}
	s.patience = min(max(2*s.patience, time.Millisecond), 50*time.Millisecond)
	return s.killAll() && over
}

func (s *supervisor) running() bool { return s.start != nil && s.start.pid != 0 && !s.ended }

// killAll kills whatever lives of the job, and reports whether nothing did.
func (s *supervisor) killAll() bool {
	if s.order.Cgroup == "" {
		n, err := seat.KillDescendants(os.Getpid())
		for _, g := range s.order.Groups {
			more, unread := g.Kill()
			n, err = n+more, errors.Join(err, unread)
		}
		return err == nil && n == 0
	}
	job := s.jobGroup()
	populated, err := job.Populated()
	if err == nil && !populated {
		return true
	}
	// gofail: var supervisorBeforeKill struct{}
	_ = job.Kill() // tried again until the cgroup says that it is empty
	populated, err = job.Populated()
	return err == nil && !populated
}

func (s *supervisor) jobGroup() seat.Cgroup {
	return seat.Cgroup(s.order.Cgroup + "/" + seat.JobGroup)
}

// next is when something is to be decided or done; 0 if nothing is planned. What cannot be
// done now must not be in it, or the timer would fire without end.
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
	return at
}

// wait sleeps until there is something to do, and answers clients meanwhile.
func (s *supervisor) wait() {
	fds := make([]pollFD, 0, 4+maxConns)
	for _, fd := range append([]int{s.timer, s.wake, s.memory, s.listen}, s.conns...) { // poll skips -1
		fds = append(fds, pollFD{fd: int32(fd), events: pollIn})
	}
	timeout := int64(-1)
	if s.patience > 0 {
		timeout = int64(s.patience)
	}
	if err := poll(fds, timeout); err != nil {
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

// finish stores the result, when all is dead, and ends the process.
func (s *supervisor) finish() {
	s.out.settle()
	r := s.result()
	if err := writeResult(&r, &s.out); err != nil {
		die("write result: " + err.Error())
	}
	s.tell("ended")
	os.Exit(0)
}

func (s *supervisor) result() seat.Result {
	r := seat.Result{
		Outcome: s.outcome, Reason: s.reason, ExitCode: -1, Ended: time.Now(),
		Contained: s.order.Cgroup != "", LogDropped: s.out.dropped.Load(),
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

// tell writes to the agent that started us. It may be gone.
func (s *supervisor) tell(line string) {
	_, _ = syscall.Write(seat.ReadyFD, []byte(line+"\n"))
}
