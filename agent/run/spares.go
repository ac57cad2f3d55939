//go:build linux

package run

import (
	"context"
	"os"
	"path/filepath"
	"slices"
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
	ending []spare // those that were told to end
	ready  bool    // the cgroup of idle supervisors exists
	closed bool
}

type spare struct {
	child
	slot        // the cgroups that the supervisor keeps; none after its first seat
	isNew  bool // the slot was just assigned: it does not exist yet
	since  BootTime
	owners *slotOwners // lists the slot; nil if there is none
}

// The method `take` returns an idle supervisor whose slot has the given limits, or one without a slot. It prefers the supervisor that became
// idle last, because its memory is most likely in the processor's caches.
func (s *spares) take(limits seat.Limits) (spare, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.idle) - 1; i >= 0; i-- {
		if c := s.idle[i]; c.cgroup == "" || c.limits == limits {
			s.idle = slices.Delete(s.idle, i, i+1)
			return c, true
		}
	}
	return spare{}, false
}

// The method `keep` adds a supervisor that has become idle. It returns false if there are enough of them.
func (s *spares) keep(c spare) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxSpares {
		return false
	}
	c.since = Now()
	s.idle = append(s.idle, c)
	return true
}

// The method `end` kills an idle supervisor that is of no use. It is not reaped yet, so its PID is still its own.
func (s *spares) end(c spare) {
	_ = syscall.Kill(c.pid, syscall.SIGKILL)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = append(s.ending, c)
}

// The method `ended` collects the exit status of a supervisor that has ended, and removes its slot. It returns false as long as anything is
// left of it.
func (c *spare) ended() bool {
	if !c.reaped() || !c.removed() {
		return false
	}
	if c.owners != nil {
		c.owners.remove(c.cgroup)
	}
	return true
}

// The method `release` ends the supervisors that have been idle for a while, and cleans up after those that have ended.
func (s *spares) release(idleFor time.Duration) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 && Now().Sub(s.idle[0].since) >= idleFor {
		s.ending, s.idle = append(s.ending, s.idle[0]), s.idle[1:]
	}
	ending := s.ending[:0]
	for _, c := range s.ending {
		if !c.ended() {
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

// The method `reuse` gives the seat the supervisor `s`, which has served another seat. The supervisor is moved into the seat's cgroup first,
// unless it is there already, so that it can be killed through the cgroup from then on. The method fails if the supervisor has died while it
// was idle.
func (r *Runner) reuse(s *spare, order *seat.Order, complaints, ready, lock *os.File) error {
	rights := syscall.UnixRights(int(complaints.Fd()), int(ready.Fd()), int(lock.Fd()))
	dir := []byte(filepath.Join(r.dir, seatsDir, order.Key.String()))
	if s.isNew {
		if err := seat.WriteFile(order.Cgroup+"/"+seat.SupervisorGroup+"/cgroup.procs", []byte(strconv.Itoa(s.pid)), 0, 0); err != nil {
			return err
		}
	}
	return syscall.Sendmsg(s.next, dir, rights, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// keepSupervisor keeps the supervisor of a seat that has ended, and whose cgroups are gone, for another seat.
func (p *Proc) keepSupervisor() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.order.InSlot && p.child.isIdle() && p.r.spares.keep(spare{child: p.child}) {
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
