//go:build unix

package output

import (
	"cmp"
	"io"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether w is a terminal. IsTerminal asks the system for the window size,
// because only a terminal has one.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// terminalSize returns the number of columns and rows of a terminal. Some terminals, such as a serial line, have the size 0. Then the
// variables COLUMNS and LINES say the size, or it is that of a classic terminal.
func terminalSize(w io.Writer) (columns, rows int) {
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			columns, rows = int(size.Col), int(size.Row)
		}
	}
	return cmp.Or(columns, sizeVariable("COLUMNS"), 80), cmp.Or(rows, sizeVariable("LINES"), 24)
}

func sizeVariable(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// terminalSignals are the signals that a program on the alternate screen handles.
type terminalSignals struct{ resized, suspend, hangup chan os.Signal }

func newTerminalSignals() *terminalSignals {
	s := &terminalSignals{make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1)}
	signal.Notify(s.resized, unix.SIGWINCH)
	signal.Notify(s.suspend, unix.SIGTSTP)
	signal.Notify(s.hangup, unix.SIGHUP, unix.SIGQUIT)
	return s
}

// suspendSelf stops the program as Ctrl-Z does, and returns when the program is continued. It uses SIGSTOP, because Go does not
// give SIGTSTP its default action back. A program that no shell started is not stopped, because nothing could continue it.
func (s *terminalSignals) suspendSelf() {
	if session, err := unix.Getsid(0); err != nil || session == unix.Getpid() {
		return
	}
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if unix.Kill(unix.Getpid(), unix.SIGSTOP) == nil {
		<-continued // another thread may take the signal, so this one may still run for a moment
	}
}

func (s *terminalSignals) stop() {
	for _, c := range []chan os.Signal{s.resized, s.suspend, s.hangup} {
		signal.Stop(c)
	}
}
