//go:build linux

package main

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The type `input` is the standard input of a job, as seat.InputRequest describes it. Only the loop uses it.
type input struct {
	fd int // the end of the pipe, or the master of the terminal, to which the supervisor writes; -1 if there is none, or no longer
	// hold is the job's side of the terminal, -1 without one. It is open until the job has ended, so that the output does not end while no
	// process of the job has the terminal open: one of them may open it again.
	hold    int
	has     bool
	writer  string
	written int64
}

// answerInput carries out a request. It never waits: a job that does not read gets as much as fits, and the agent sends the rest again.
func (s *supervisor) answerInput(request []byte) string {
	i, err := seat.DecodeInput(request)
	if err != nil {
		return "error " + err.Error()
	}
	in := &s.input
	switch {
	case s.start == nil:
		return "refused it is still starting"
	case !in.has:
		return "refused " + seat.InputNone
	case i.Verb == "begin":
		in.writer = i.Writer
	case i.Writer != in.writer:
		return "refused " + seat.InputTaken
	}
	if why := in.do(&i, s.order.Terminal); why != "" {
		return "refused " + why
	}
	return "ok " + strconv.FormatInt(in.written, 10)
}

// The method `do` carries out a request of the current writer, and returns why that is not possible.
func (in *input) do(i *seat.Input, terminal bool) string {
	switch i.Verb {
	case "write":
		return in.write(i)
	case "end":
		switch {
		case i.At != in.written:
			return seat.InputGap
		case !terminal: // a terminal is ended by a byte
			closeFD(&in.fd)
		}
	case "resize":
		if terminal && in.fd >= 0 {
			_ = setTerminalSize(in.fd, i.Columns, i.Rows)
		}
	case "begin":
		if in.fd < 0 {
			return seat.InputClosed
		}
	}
	return ""
}

func (in *input) write(i *seat.Input) string {
	if i.At > in.written {
		return seat.InputGap
	}
	data := i.Data[min(in.written-i.At, int64(len(i.Data))):]
	for len(data) > 0 {
		if in.fd < 0 {
			return seat.InputClosed
		}
		n, err := syscall.Write(in.fd, data)
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return ""
		case err != nil: // EPIPE
			closeFD(&in.fd)
			return seat.InputClosed
		default:
			in.written += int64(n)
			data = data[n:]
		}
	}
	return ""
}

func (in *input) close() {
	closeFD(&in.fd)
	closeFD(&in.hold)
}

// jobFiles are the standard files of the job's process, and the supervisor's ends of them.
type jobFiles struct {
	stdin, output int // the job's: its standard input, and its standard output and error
	read, write   int // the supervisor's: for the output and the input; write is -1 if the input is empty
}

// openJobFiles opens the standard files of a job. The job's user owns those of its own, so that it can open them again by name.
func openJobFiles(o *seat.Order) (f *jobFiles, err error) {
	f = &jobFiles{stdin: -1, output: -1, read: -1, write: -1}
	if o.Terminal {
		err = f.openTerminal()
	} else {
		err = f.openPipes(o.Stdin)
	}
	if err == nil && o.User != nil && f.write >= 0 {
		err = os.NewSyscallError("fchown", syscall.Fchown(f.stdin, int(o.User.UID), int(o.User.GID)))
	}
	if err == nil && f.write >= 0 {
		err = os.NewSyscallError("fcntl", syscall.SetNonblock(f.write, true))
	}
	if err != nil {
		f.close()
	}
	return f, err
}

func (f *jobFiles) openPipes(stdin bool) (err error) {
	var pipe [2]int
	if err = syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	f.read, f.output = pipe[0], pipe[1]
	if !stdin {
		f.stdin, err = syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		return os.NewSyscallError("open /dev/null", err)
	}
	if err = syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	f.stdin, f.write = pipe[0], pipe[1]
	return nil
}

// Requests of ioctl for terminals, which are the same on all architectures that Ares supports.
const (
	ioctlGetPeer  = 0x5441     // TIOCGPTPEER
	ioctlUnlock   = 0x40045431 // TIOCSPTLCK
	ioctlSetSize  = 0x5414     // TIOCSWINSZ
	ioctlTerminal = 0x540e     // TIOCSCTTY
)

// These are the columns and rows of a terminal until a user attaches.
const defaultColumns, defaultRows = 80, 24

func (f *jobFiles) openTerminal() (err error) {
	if f.read, err = syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("open /dev/ptmx", err)
	}
	var locked int32
	if err = ioctl(f.read, ioctlUnlock, uintptr(unsafe.Pointer(&locked))); err != nil {
		return os.NewSyscallError("ioctl(TIOCSPTLCK)", err)
	}
	if err = setTerminalSize(f.read, defaultColumns, defaultRows); err != nil {
		return os.NewSyscallError("ioctl(TIOCSWINSZ)", err)
	}
	// This finds the other side without its path, which another file system may cover.
	fd, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(f.read), ioctlGetPeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	if errno != 0 {
		return os.NewSyscallError("ioctl(TIOCGPTPEER)", errno)
	}
	f.stdin = int(fd)
	if f.output, err = duplicate(f.stdin); err != nil {
		return err
	}
	f.write, err = duplicate(f.read)
	return err
}

func duplicate(fd int) (int, error) {
	other, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, seat.NextFD+1)
	if errno != 0 {
		return -1, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", errno)
	}
	return int(other), nil
}

func setTerminalSize(fd int, columns, rows uint16) error {
	size := struct{ rows, columns, x, y uint16 }{rows: rows, columns: columns}
	return ioctl(fd, ioctlSetSize, uintptr(unsafe.Pointer(&size)))
}

func ioctl(fd int, request, argument uintptr) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, argument); errno != 0 {
		return errno
	}
	return nil
}

// The method `take` passes on the files that the supervisor keeps: the end for the output, and the input.
func (f *jobFiles) take(o *seat.Order) (read int, in input) {
	read, in = f.read, input{fd: f.write, hold: -1, has: f.write >= 0}
	f.read, f.write = -1, -1
	if o.Terminal {
		in.hold, f.stdin = f.stdin, -1
	}
	return read, in
}

func (f *jobFiles) close() {
	for _, fd := range []*int{&f.stdin, &f.output, &f.read, &f.write} {
		closeFD(fd)
	}
}
