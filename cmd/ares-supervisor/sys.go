//go:build linux

package main

import (
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const (
	prSetChildSubreaper = 36
	prSetNoNewPrivs     = 38
	clockBoottime       = 7
	timerAbsolute       = 1
	pollIn              = 1
)

type pollFD struct {
	fd              int32
	events, revents int16
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// heedSignals resets every ignored signal to its default action. The program that started the agent (such as nohup or
// make) may have set some signals to be ignored. A job that inherits an ignored signal does not react to it.
func heedSignals() {
	const ignore, count = 1, 64
	type action struct {
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}
	for sig := uintptr(1); sig <= count; sig++ {
		var now action
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		if errno == 0 && now.handler == ignore {
			_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action{})), 0, 8, 0, 0)
		}
	}
}

func timerfd() (int, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime,
		syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// The function `arm` makes the timer fire at an absolute CLOCK_BOOTTIME. Unlike the timeout of the function `poll`,
// CLOCK_BOOTTIME also counts the time during which the machine is suspended. If the time is 0, the timer is disarmed.
func arm(fd int, at seat.BootTime) error {
	var spec struct{ interval, value syscall.Timespec }
	spec.value = syscall.NsecToTimespec(int64(at))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(fd), timerAbsolute,
		uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func eventfd() (int, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func wakeUp(eventfd int) {
	one := [8]byte{1} // any nonzero count, in either byte order
	_, _ = syscall.Write(eventfd, one[:])
}

// The function `poll` waits until a descriptor is ready. A negative timeout means to wait without a limit.
func poll(fds []pollFD, timeoutNs int64) error {
	var ts syscall.Timespec
	var tsp unsafe.Pointer
	if timeoutNs >= 0 {
		ts = syscall.NsecToTimespec(timeoutNs)
		tsp = unsafe.Pointer(&ts)
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)),
		uintptr(tsp), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// The function `drain` reads an eventfd or timerfd until it is empty.
func drain(fd int) {
	var b [8]byte
	_, _ = syscall.Read(fd, b[:])
}

// The function `listen` opens the control socket. If the job's user can enter the seat directory, only the socket's
// mode protects the socket.
func listen(path string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX,
		syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	old := syscall.Umask(0o177)
	err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
	syscall.Umask(old) // the job inherits the umask
	if err == nil {
		err = syscall.Listen(fd, 8*maxConns)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}
