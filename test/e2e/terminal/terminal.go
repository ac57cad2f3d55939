// Package terminal runs a program on a pseudoterminal, as a user does, and knows what the user sees. Tests use it for programs that
// move the cursor or that fit their output to the width of the terminal.
package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for something on the screen.
const patience = 2 * time.Minute

// Open opens a pseudoterminal: the side of the user, and the side of the program.
func Open(columns, rows int) (user, program *os.File, err error) {
	user, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fd := int(user.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = resize(user, columns, rows)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, user.Close())
	}
	return user, program, nil
}

func resize(user *os.File, columns, rows int) error {
	return unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)})
}

// Attach gives a command the program's side of a pseudoterminal as its controlling terminal.
func Attach(cmd *exec.Cmd, program *os.File) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

// Terminal is a terminal on which a program runs.
type Terminal struct {
	t    testing.TB
	user *os.File
	cmd  *exec.Cmd

	mu     sync.Mutex
	screen *Screen
	raw    strings.Builder
	moved  chan struct{} // closed when the program has printed something
	ended  chan struct{} // closed when the program's side is closed
}

// Start runs a command on a new terminal. The size may be 0, as it is on a serial line; then the screen of the test has 80
// columns and 24 rows. The command is killed at the end of the test if it still runs.
func Start(t testing.TB, columns, rows int, cmd *exec.Cmd) *Terminal {
	t.Helper()
	user, program, err := Open(columns, rows)
	if err != nil {
		t.Fatal(err)
	}
	Attach(cmd, program)
	err = cmd.Start()
	if closed := program.Close(); err != nil || closed != nil {
		t.Fatal(errors.Join(err, closed, user.Close()))
	}
	columns, rows = cmp.Or(columns, 80), cmp.Or(rows, 24)
	x := &Terminal{t: t, user: user, cmd: cmd, screen: NewScreen(columns, rows), moved: make(chan struct{}), ended: make(chan struct{})}
	go x.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has usually ended
		_ = cmd.Wait()
		_ = user.Close()
		<-x.ended
	})
	return x
}

func (x *Terminal) read() {
	defer close(x.ended)
	buf := make([]byte, 64) // small, so that tests meet frames that are drawn in part
	for {
		n, err := x.user.Read(buf)
		x.mu.Lock()
		x.raw.Write(buf[:n])
		x.screen.Write(buf[:n])
		close(x.moved)
		x.moved = make(chan struct{})
		x.mu.Unlock()
		if err != nil { // EIO: the program has ended
			return
		}
	}
}

// Send types a text. "\x03" is Ctrl-C, and "\x1a" is Ctrl-Z.
func (x *Terminal) Send(text string) {
	x.t.Helper()
	if _, err := x.user.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// Resize changes the size of the terminal. Its screen becomes empty, because terminals differ in what they keep; a program that
// handles the change draws it again.
func (x *Terminal) Resize(columns, rows int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	if err := resize(x.user, columns, rows); err != nil {
		x.t.Fatal(err)
	}
}

// Signal sends a signal to the program.
func (x *Terminal) Signal(sig os.Signal) {
	x.t.Helper()
	if err := x.cmd.Process.Signal(sig); err != nil {
		x.t.Fatal(err)
	}
}

// Screen returns a copy of the screen as it is now.
func (x *Terminal) Screen() *Screen {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.copy()
}

// Raw returns everything that the program has printed.
func (x *Terminal) Raw() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.raw.String()
}

// Await waits until the screen is as the function wants, and returns it. Frames that are not wholly drawn are not considered.
func (x *Terminal) Await(what string, is func(*Screen) bool) *Screen {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	for {
		x.mu.Lock()
		now, moved := x.screen.copy(), x.moved
		x.mu.Unlock()
		if !now.Partial && is(now) {
			return now
		}
		select {
		case <-moved:
		case <-x.ended:
			if now = x.Screen(); !is(now) {
				x.t.Fatalf("the program ended, but the screen does not have %s:\n%s", what, now)
			}
			return now
		case <-ctx.Done():
			x.t.Fatalf("the screen does not have %s:\n%s", what, now)
		}
	}
}

// AwaitText waits until a line of the screen matches a regular expression, and returns the screen.
func (x *Terminal) AwaitText(pattern string) *Screen {
	x.t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	return x.Await(pattern, func(s *Screen) bool { return want.MatchString(s.String()) })
}

// Wait waits until the program has ended, and returns its exit code. It is -1 if a signal has ended the program.
func (x *Terminal) Wait() int {
	x.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = x.cmd.Process.Kill() })
	defer timer.Stop()
	_ = x.cmd.Wait()
	<-x.ended
	return x.cmd.ProcessState.ExitCode()
}
