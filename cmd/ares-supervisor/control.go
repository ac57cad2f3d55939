//go:build linux

package main

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const (
	// maxConns is the maximum number of open connections. When the maximum is reached, a new connection replaces the oldest one, so
	// stuck clients cannot lock out an agent.
	maxConns = 16
	// maxRequest is the maximum length of one request.
	maxRequest = seat.MaxInputHeader + seat.MaxInput
	// requestControl has room for the files of a request: a header of 16 bytes, and 4 bytes for each file.
	requestControl = 16 + 4*seat.ExecFiles
)

func (s *supervisor) accept() {
	fd, _, err := syscall.Accept4(s.listen, syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
	if err != nil {
		return // the client has gone
	}
	if s.process.busy.add(fd) != nil {
		_ = syscall.Close(fd)
		return
	}
	if len(s.conns) == maxConns {
		s.hangUp(s.conns[0])
	}
	s.conns = append(s.conns, fd)
}

func (s *supervisor) hangUp(fd int) {
	for i, c := range s.conns {
		if c == fd {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			_ = syscall.Close(fd)
			return
		}
	}
}

// The method `serve` answers one request of a client. Neither reading nor writing blocks. If a client does not read its answers,
// its connection is closed.
func (s *supervisor) serve(fd int) {
	if x := s.execOn(fd); x != nil {
		s.serveExec(x)
		return
	}
	if !s.has(fd) { // it was closed in the same round to make room for a newer connection
		return
	}
	var buf [maxRequest]byte
	var control [requestControl]byte
	n, controlled, _, _, err := syscall.Recvmsg(fd, buf[:], control[:], syscall.MSG_DONTWAIT|syscall.MSG_CMSG_CLOEXEC)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return
	}
	if err != nil || n == 0 {
		s.hangUp(fd)
		return
	}
	files, request := filesOf(control[:controlled]), strings.TrimSpace(string(buf[:n]))
	if request == seat.ExecRequest {
		s.requestExec(fd, files, seat.Now())
		return
	}
	closeFiles(files)
	var answer string
	if strings.HasPrefix(request, seat.InputRequest) {
		answer = s.answerInput(buf[:n])
	} else {
		answer = s.answer(request, seat.Now())
	}
	if err := syscall.Sendto(fd, []byte(answer), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, nil); err != nil {
		s.hangUp(fd)
	}
}

func (s *supervisor) has(fd int) bool {
	for _, c := range s.conns { //nolint:modernize // the supervisor does without slices: archtest
		if c == fd {
			return true
		}
	}
	return false
}

// The method `answer` carries out one request:
//
//	renewed <boottime-ns>        ok | refused <why>
//	stop <grace-ns|-1> <reason>  ok
//	kill                         ok
//	status                       ok key=value ...
//
// The method `serve` handles the requests seat.ExecRequest and seat.InputRequest itself, because files or data come with them.
func (s *supervisor) answer(request string, now seat.BootTime) string {
	verb, rest, _ := strings.Cut(request, " ")
	switch verb {
	case "renewed":
		ns, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return "error not a number: " + rest
		}
		return s.renew(seat.BootTime(ns), now)
	case "stop":
		first, reason, _ := strings.Cut(rest, " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return "error not a number: " + first
		}
		grace := time.Duration(ns)
		if grace < 0 {
			grace = s.order.Grace
		}
		s.end(seat.Stopped, reason, now, now.Add(min(grace, seat.MaxDuration)))
		return "ok"
	case "kill":
		s.end(seat.Stopped, "killed", 0, now)
		return "ok"
	case "status":
		return s.describe()
	}
	return "error unknown request: " + verb
}

// The method `renew` records an acknowledged renewal that was sent at the given time. If half of lost_after has passed since the
// last renewal, the supervisor decides to end the job. Once the supervisor has decided to end the job, a later renewal does not
// change that. This holds even if the timer event has not been handled yet.
func (s *supervisor) renew(sent, now seat.BootTime) string {
	s.decide(now)
	switch {
	case s.fenced:
		return "refused fenced"
	case sent > now:
		return "refused sent in the future"
	}
	s.renewed = max(s.renewed, sent)
	return "ok"
}

func (s *supervisor) describe() string {
	state, pid, at := "starting", 0, seat.BootTime(0)
	if s.start != nil {
		state, pid, at = "running", s.start.pid, s.start.at
		if pid == 0 || s.ended {
			state = "ending"
		}
	}
	return "ok state=" + state +
		" pid=" + strconv.Itoa(pid) +
		" started=" + strconv.FormatInt(int64(at), 10) +
		" renewed=" + strconv.FormatInt(int64(s.renewed), 10) +
		" attempt=" + strconv.Itoa(s.order.Attempt) +
		" lost_after=" + strconv.FormatInt(int64(s.order.LostAfter), 10) +
		" grace=" + strconv.FormatInt(int64(s.order.Grace), 10) +
		" fenced=" + strconv.FormatBool(s.fenced) +
		" ending=" + string(s.outcome)
}
