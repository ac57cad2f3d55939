package top

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/e2e/top/standin"
	"github.com/ares-scheduler/ares/test/live"
)

// BenchmarkTop runs "ares top" on a terminal of 200 columns and 60 rows, with a server that has 1,000 nodes of eight
// devices each, and reports the processor time of the program as a share of one core, for each view that shows nodes. The
// start of the program is not part of the figure. The interval is the default, two seconds.
func BenchmarkTop(b *testing.B) {
	for _, view := range []string{"nodes", "devices"} {
		b.Run(view, func(b *testing.B) {
			s := standin.Start(b, rounds.Sized(1000, 20))
			length := rounds.Sized(30*time.Second, time.Second)
			var used, passed time.Duration
			for b.Loop() {
				u, p := measure(b, s, view, length)
				used, passed = used+u, passed+p
			}
			b.ReportMetric(100*used.Seconds()/passed.Seconds(), "%-of-a-core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fullScreen is fewer bytes than the program writes for its first screen, and more than it writes before it.
const fullScreen = 2000

// The function `measure` returns the processor time that the program uses in a period.
func measure(b *testing.B, s *standin.Server, view string, length time.Duration) (used, passed time.Duration) {
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	check(b, err)
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	check(b, err)
	check(b, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	check(b, unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 60, Col: 200}))
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	check(b, err)
	cmd := exec.CommandContext(b.Context(), live.Ares.Path(b), "top", "--view", view)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "ARES_SERVER="+s.Address, "ARES_DATA_DIR="+b.TempDir())
	check(b, cmd.Start())
	check(b, program.Close())
	shown, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 64<<10)
		for total := 0; ; {
			n, err := user.Read(buf)
			if total <= fullScreen && total+n > fullScreen {
				close(shown)
			}
			total += n
			if err != nil { // EIO: the program has ended
				return
			}
		}
	}()
	waitShown(b, shown, ended)
	before, began := processTime(b, cmd.Process.Pid), time.Now()
	<-time.After(length)
	used, passed = processTime(b, cmd.Process.Pid)-before, time.Since(began)
	_, err = user.WriteString("q")
	check(b, err)
	<-ended
	check(b, cmd.Wait())
	check(b, user.Close())
	return used, passed
}

func waitShown(b *testing.B, shown, ended <-chan struct{}) {
	select {
	case <-shown:
	case <-ended:
		b.Fatal("ares top ended before it showed anything")
	}
}

// processTime returns the processor time that a process has used so far, from the clock of that process.
func processTime(b *testing.B, pid int) time.Duration {
	var now unix.Timespec
	// This is how the system numbers the clock of another process: see clock_getcpuclockid(3).
	check(b, unix.ClockGettime(int32(^pid)<<3|2, &now))
	return time.Duration(now.Nano())
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
