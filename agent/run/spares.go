//go:build linux

package run

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The start of a supervisor costs more processor time than a short job, so a supervisor whose job has ended waits for another seat (see
// cmd/ares-supervisor/again.go). While a supervisor has a seat, it is that seat's own: it is in the seat's cgroup, it holds the seat's
// lock, and it outlives the agent. A supervisor without a seat ends with the agent, because the agent holds the other end of its socket.

// A `child` is a supervisor process that this process started.
type child struct {
	pid  int // 0 if it was reaped
	next int // socket to send it another seat; -1 if there is none
}

// The method `reaped` collects the exit status of a supervisor that has ended. It returns false while the supervisor is alive.
func (c *child) reaped() bool {
	closeAll(c.next) // a supervisor that waits for another seat now ends
	c.next = -1
	if c.pid == 0 {
		return true
	}
	pid, err := syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil)
	if pid == 0 && err == nil || err == syscall.EINTR {
		return false
	}
	c.pid = 0
	return true
}

// maxSpares is the number of supervisors that may wait for another seat. Each of them uses about 3 MiB.
const maxSpares = 16

// spares are the supervisors that wait for their next seat.
type spares struct {
	mu     sync.Mutex
	idle   []spare // the one that has waited longest first
	ending []child // those that were told to end
	ready  bool    // the cgroup of idle supervisors exists
	closed bool
}

type spare struct {
	child
	since BootTime
}

// The method `take` returns the supervisor that became idle last, because its memory is most likely in the processor's caches.
func (s *spares) take() (c child, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle) - 1
	if n < 0 {
		return child{}, false
	}
	c, s.idle = s.idle[n].child, s.idle[:n]
	return c, true
}

// The method `keep` adds a supervisor that has become idle. It returns false if there are enough of them.
func (s *spares) keep(c child) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxSpares {
		return false
	}
	s.idle = append(s.idle, spare{c, Now()})
	return true
}

// The method `release` ends the supervisors that have been idle for a while, and collects the exit status of those that have ended.
func (s *spares) release(idleFor time.Duration) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 && Now().Sub(s.idle[0].since) >= idleFor {
		s.ending, s.idle = append(s.ending, s.idle[0].child), s.idle[1:]
	}
	ending := s.ending[:0]
	for _, c := range s.ending {
		if !c.reaped() {
			ending = append(ending, c)
		}
	}
	s.ending = ending
	return len(ending)
}

func (s *spares) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	_ = until(ctx, func() bool { return s.release(0) == 0 })
}

// ReleaseIdle ends the supervisors that have waited for another seat for at least the given time. The caller calls it now and then,
// because this package starts no goroutines.
func (r *Runner) ReleaseIdle(idleFor time.Duration) { r.spares.release(idleFor) }

// nextSocket returns the two ends of a socket on which a supervisor gets its next seat.
func (r *Runner) nextSocket(order *seat.Order) (ours, theirs int, ok bool) {
	if !order.Contained() || len(order.Secrets) > 0 || !r.haveIdleGroup() {
		return -1, -1, false
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, false
	}
	return pair[0], pair[1], true
}

// haveIdleGroup creates the cgroup of idle supervisors. No seat has this name, because a seat's name has a fence and a rank.
func (r *Runner) haveIdleGroup() bool {
	r.spares.mu.Lock()
	defer r.spares.mu.Unlock()
	if !r.spares.ready {
		r.spares.ready = os.MkdirAll(filepath.Join(string(r.cgroup), seat.IdleGroup), 0o755) == nil
	}
	return r.spares.ready
}

// The method `reuse` gives the seat a supervisor that has served another seat. The supervisor is moved into the seat's cgroup first, so
// that it can be killed through the cgroup from then on. If there is no such supervisor, the method returns false.
func (r *Runner) reuse(order *seat.Order, complaints, ready, lock *os.File) (child, bool) {
	rights := syscall.UnixRights(int(complaints.Fd()), int(ready.Fd()), int(lock.Fd()))
	dir := []byte(filepath.Join(r.dir, seatsDir, order.Key.String()))
	for {
		c, ok := r.spares.take()
		if !ok {
			return child{}, false
		}
		err := seat.WriteFile(order.Cgroup+"/"+seat.SupervisorGroup+"/cgroup.procs", []byte(strconv.Itoa(c.pid)), 0, 0)
		if err == nil {
			err = syscall.Sendmsg(c.next, dir, rights, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		}
		if err == nil {
			return c, true
		}
		// It has died while it was idle. It is not reaped yet, so its PID is still its own.
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
		r.spares.mu.Lock()
		r.spares.ending = append(r.spares.ending, c)
		r.spares.mu.Unlock()
	}
}

// keepSupervisor keeps the supervisor for another seat if it waits for one. The seat must have ended.
func (p *Proc) keepSupervisor() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child.pid == 0 || p.child.next < 0 {
		return
	}
	var message [len(seat.Idle) + 1]byte
	n, _, err := syscall.Recvfrom(p.child.next, message[:], syscall.MSG_DONTWAIT)
	if err == nil && string(message[:n]) == seat.Idle && p.r.spares.keep(p.child) {
		p.child = child{next: -1}
	}
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
}
