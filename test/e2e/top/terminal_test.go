package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"
)

// patience limits how long a test waits for a screen. A loaded machine needs a few seconds.
const patience = time.Minute

// The type `terminal` is a pseudoterminal with a program on it.
type terminal struct {
	tb            testing.TB
	user          *os.File
	cmd           *exec.Cmd
	columns, rows int
	changed       chan struct{} // receives after each output
	ended         chan struct{} // closed when the program has closed the terminal

	mu  sync.Mutex
	raw []byte
}

// The function `open` starts a program on a terminal of a size.
func open(tb testing.TB, columns, rows int, environment []string, argv ...string) *terminal {
	tb.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(tb, err)
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	check(tb, err)
	check(tb, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	check(tb, err)
	t := &terminal{tb: tb, user: user, columns: columns, rows: rows, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	t.resize(columns, rows)
	ctx, cancel := context.WithTimeout(tb.Context(), 3*patience)
	t.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = program, program, program
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	t.cmd.Env = append([]string{
		"TERM=xterm-256color", "LANG=C.UTF-8", "TZ=UTC", "PATH=" + os.Getenv("PATH"), "HOME=" + tb.TempDir(),
	}, environment...)
	check(tb, t.cmd.Start())
	check(tb, program.Close())
	go t.read()
	tb.Cleanup(func() {
		cancel()
		<-t.ended
		_ = t.cmd.Wait() // a test that ended the program has waited already
		_ = user.Close()
	})
	return t
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (t *terminal) read() {
	defer close(t.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := t.user.Read(buf)
		t.mu.Lock()
		t.raw = append(t.raw, buf[:n]...)
		t.mu.Unlock()
		select {
		case t.changed <- struct{}{}:
		default:
		}
		if err != nil { // EIO: the program has ended
			return
		}
	}
}

func (t *terminal) resize(columns, rows int) {
	t.tb.Helper()
	t.columns, t.rows = columns, rows
	check(t.tb, unix.IoctlSetWinsize(int(t.user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

func (t *terminal) send(text string) {
	t.tb.Helper()
	_, err := t.user.WriteString(text)
	check(t.tb, err)
}

// The method `output` returns everything that the program has written.
func (t *terminal) output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.raw)
}

// The method `screen` returns what the terminal shows, and whether it shows the alternate screen.
func (t *terminal) screen() (string, bool) {
	vt := vt10x.New(vt10x.WithSize(max(t.columns, 1), max(t.rows, 1)))
	text := t.output()
	_, err := vt.Write([]byte(plain(text)))
	check(t.tb, err)
	var lines []string
	for line := range strings.SplitSeq(vt.String(), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n"), strings.LastIndex(text, "\x1b[?1049h") > strings.LastIndex(text, "\x1b[?1049l")
}

var (
	// unknown matches sequences of newer terminals, such as the keyboard protocol, which the emulator misunderstands.
	unknown = regexp.MustCompile("\x1b\\[[<=>][0-9;]*[a-z]|\x1b\\[\\?[0-9;]*(\\$p|u)")
	// repeat matches a character and the request to repeat it.
	repeat = regexp.MustCompile("(.)\x1b\\[([0-9]+)b")
)

// The function `plain` replaces the sequences that the emulator does not know.
func plain(text string) string {
	text = unknown.ReplaceAllString(text, "")
	return repeat.ReplaceAllStringFunc(text, func(s string) string {
		m := repeat.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2]) // the expression matches digits only
		return strings.Repeat(m[1], n+1)
	})
}

// The method `await` waits until the screen satisfies a condition, and returns the screen.
func (t *terminal) await(what string, ok func(screen string) bool) string {
	t.tb.Helper()
	timeout := time.After(patience)
	for {
		screen, _ := t.screen()
		if ok(screen) {
			return screen
		}
		select {
		case <-t.changed:
		case <-t.ended:
			if screen, _ = t.screen(); ok(screen) {
				return screen
			}
			t.tb.Fatalf("the program ended before %s:\n%s", what, screen)
		case <-timeout:
			t.tb.Fatalf("no %s within %s:\n%s\n%q", what, patience, screen, t.output())
		}
	}
}

// The method `see` waits until the screen contains all texts.
func (t *terminal) see(texts ...string) string {
	t.tb.Helper()
	return t.await(fmt.Sprintf("%q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// The method `exit` waits until the program ends, and returns its exit code. It is -1 after a signal.
func (t *terminal) exit() int {
	t.tb.Helper()
	select {
	case <-t.ended:
	case <-time.After(patience):
		screen, _ := t.screen()
		t.tb.Fatalf("the program does not end:\n%s", screen)
	}
	err := t.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	check(t.tb, err)
	return 0
}

// The method `restored` checks that the terminal shows its usual screen with a cursor and handles lines and signals
// itself.
func (t *terminal) restored() {
	t.tb.Helper()
	text := t.output()
	if _, alternate := t.screen(); alternate {
		t.tb.Errorf("the alternate screen stays: %q", text)
	}
	for on, off := range map[string]string{"\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l"} {
		if strings.LastIndex(text, on) > strings.LastIndex(text, off) {
			t.tb.Errorf("%q is not undone: %q", on, text)
		}
	}
	state, err := unix.IoctlGetTermios(int(t.user.Fd()), unix.TCGETS)
	check(t.tb, err)
	const cooked = unix.ICANON | unix.ECHO | unix.ISIG
	if state.Lflag&cooked != cooked || state.Oflag&unix.OPOST == 0 {
		t.tb.Errorf("the terminal is still raw: %+v", state)
	}
}
