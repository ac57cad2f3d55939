//go:build linux

package run

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Columns, Rows uint16 }

// openTerminal opens a new terminal, which the job's user owns. It adds the files for standard input, output and error to the list
// `theirs`, and returns the other side.
func openTerminal(size TerminalSize, user *User, theirs *[]int) (*os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master := os.NewFile(uintptr(fd), "terminal")
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = master.Close()
		return nil, os.NewSyscallError("ioctl(TIOCSPTLCK)", err)
	}
	// This finds the other side without its path, which another file system may cover.
	slave, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		_ = master.Close()
		return nil, os.NewSyscallError("ioctl(TIOCGPTPEER)", errno)
	}
	*theirs = append(*theirs, int(slave))
	if user != nil {
		if err = syscall.Fchown(int(slave), int(user.UID), int(user.GID)); err != nil {
			_ = master.Close()
			return nil, os.NewSyscallError("fchown", err)
		}
	}
	for range 2 {
		other, err := unix.FcntlInt(slave, unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			_ = master.Close()
			return nil, os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
		}
		*theirs = append(*theirs, other)
	}
	if err = setSize(fd, size); err != nil {
		_ = master.Close()
		return nil, err
	}
	return master, nil
}

func setSize(fd int, size TerminalSize) error {
	return os.NewSyscallError("ioctl(TIOCSWINSZ)", unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: size.Columns, Row: size.Rows}))
}

// Resize changes the size of the command's terminal. The command gets SIGWINCH. It does nothing for a command without a terminal.
func (x *Exec) Resize(size TerminalSize) error {
	if x.terminal == nil {
		return nil
	}
	raw, err := x.terminal.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err = raw.Control(func(fd uintptr) { failed = setSize(int(fd), size) }); err != nil {
		return err
	}
	return failed
}
