//go:build linux

package main

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A leftGroup is what remains of the process group of a command whose user is gone. The command itself has ended, with SIGHUP or before.
type leftGroup struct {
	id     int
	killAt seat.BootTime
}

// leaveGroup plans the end of the other processes of a command's group. Without the job's cgroup, they remain until the job ends.
func (s *supervisor) leaveGroup(x *execution) {
	if x.killAt != 0 && s.order.Contained() && syscall.Kill(-x.pid, 0) == nil {
		s.left = append(s.left, leftGroup{x.pid, x.killAt})
	}
}

// killLeft kills the groups whose time is over, and looks again for what they have forked in the meantime.
func (s *supervisor) killLeft(now seat.BootTime) {
	const again = 10 * time.Millisecond
	kept := s.left[:0]
	for _, g := range s.left {
		if now >= g.killAt {
			if !s.killGroup(g.id) {
				continue
			}
			g.killAt = now.Add(again)
		}
		kept = append(kept, g)
	}
	s.left = kept
}

// killGroup kills the processes of a group that are in the job's cgroup, and reports whether there were any. The command is reaped, so another
// process of the machine may have its number by now, but none in the job's cgroup belongs to anybody else.
func (s *supervisor) killGroup(id int) (found bool) {
	procs, err := seat.ReadFile(string(s.jobGroup()) + "/cgroup.procs")
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(procs), "\n") {
		pid, err := strconv.Atoi(line)
		if err != nil {
			continue
		}
		if group, err := syscall.Getpgid(pid); err == nil && group == id {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}
