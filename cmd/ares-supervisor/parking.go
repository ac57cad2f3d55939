//go:build linux

package main

import (
	"os"
	"syscall"
)

// A goroutine that blocks in a system call keeps one of the Go scheduler's processors, and until it is taken away, a thread of the runtime
// looks after it many thousand times a second. For a job of a few milliseconds, that thread used a seventh of the supervisor's processor
// time. A goroutine that the runtime's poller parks costs nothing. So the loop waits through the poller: on an epoll file that has all of its
// files.

// A `parking` is a set of files for which a goroutine waits.
type parking struct {
	fd   int
	file *os.File // the same; it belongs to the runtime's poller
	raw  syscall.RawConn
}

// newParking returns a set of files. A file leaves the set when it is closed.
func newParking(fds ...int) (*parking, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	p := &parking{fd: fd}
	for _, fd := range fds {
		if err := p.add(fd); err != nil {
			return nil, err
		}
	}
	// The runtime's poller takes only files that do not block.
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	p.file = os.NewFile(uintptr(fd), "epoll")
	p.raw, err = p.file.SyscallConn()
	return p, err
}

func (p *parking) add(fd int) error {
	if fd < 0 {
		return nil
	}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}))
}

// The method `wait` waits until a file of the set can be read. It may return earlier.
func (p *parking) wait() error {
	return p.raw.Read(func(fd uintptr) bool {
		var events [1]syscall.EpollEvent
		n, err := syscall.EpollWait(int(fd), events[:], 0)
		return n > 0 || err != nil
	})
}
