package top

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/cli/top"
	"github.com/ares-scheduler/ares/test/e2e/top/standin"
	"github.com/ares-scheduler/ares/test/live"
)

var rewrite = flag.Bool("rewrite", false, "write the screens in testdata again")

// crashVariable makes the test's own program run the screen with a source that panics.
const crashVariable = "ARES_TOP_CRASH"

func TestMain(m *testing.M) {
	if os.Getenv(crashVariable) == "" {
		os.Exit(m.Run())
	}
	asked := 0
	err := top.Run(context.Background(), top.Options{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Interval: 500 * time.Millisecond, Now: time.Now,
		Fetch: func(context.Context, top.View) (top.Snapshot, error) {
			if asked++; asked > 1 {
				panic("the source is broken")
			}
			return top.Snapshot{}, nil
		},
	})
	fmt.Println("after the screen:", err)
	os.Exit(1)
}

// The function `start` starts "ares top" on a terminal.
func start(tb testing.TB, s *standin.Server, columns, rows int, args ...string) *terminal {
	tb.Helper()
	return open(tb, columns, rows, []string{"ARES_SERVER=" + s.Address, "ARES_DATA_DIR=" + tb.TempDir()}, append([]string{live.Ares.Path(tb), "top"}, args...)...)
}

// The screens of all views, at four widths.
func TestScreens(t *testing.T) {
	for _, columns := range []int{60, 80, 120, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			term := start(t, standin.Start(t, 14), columns, 20)
			path := filepath.Join("testdata", fmt.Sprintf("screens-%d.txt", columns))
			between := "\n" + strings.Repeat("=", columns) + "\n"
			var want []string
			if text, err := os.ReadFile(path); !*rewrite {
				check(t, err)
				want = strings.Split(strings.TrimSuffix(string(text), "\n"), between)
			}
			var screens []string
			for i, texts := range [][]string{{"[1 nodes]", "gpu-0013", "q quit"}, {"[2 devices]", "gpu-0001"}, {"[3 my jobs]", "job-ebbb"}, {"[4 queue]", "job-deee"}} {
				if i > 0 {
					term.send(fmt.Sprint(i + 1))
				}
				screen := term.see(texts...)
				if !*rewrite { // the terminal may still be receiving the rest of the screen
					screen = term.await("the screen of "+path+"; if a change is intended, run go test ./test/e2e/top -rewrite",
						func(screen string) bool { return i < len(want) && screen == want[i] })
				}
				screens = append(screens, screen)
			}
			if *rewrite {
				check(t, os.WriteFile(path, []byte(strings.Join(screens, between)+"\n"), 0o644))
			}
			term.send("q")
			if code := term.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			term.restored()
		})
	}
}

func TestResize(t *testing.T) {
	s := standin.Start(t, 50)
	term := start(t, s, 120, 30)
	term.see("1-25 of 50", "SCORE")
	term.resize(60, 12)
	screen := term.see("gpu-0006", "q quit")
	if strings.Contains(screen, "gpu-0007") || strings.Contains(screen, "SCORE") {
		t.Errorf("the screen is too large:\n%s", screen)
	}
	term.resize(0, 0) // a terminal that does not know its size
	term.resize(200, 60)
	term.see("gpu-0049", "1-50 of 50", "SCORE")
	term.send("q")
	if code := term.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	term.restored()
}

func TestKill(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		term := start(t, standin.Start(t, 3), 80, 24)
		term.see("gpu-0002")
		check(t, term.cmd.Process.Signal(signal))
		if code := term.exit(); code != 0 {
			t.Errorf("%s: exit code %d", signal, code)
		}
		term.restored()
	}
}

func TestPanic(t *testing.T) {
	term := open(t, 80, 24, []string{crashVariable + "=1"}, os.Args[0])
	if code := term.exit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	term.restored()
	text := term.output()
	after := text[strings.LastIndex(text, "\x1b[?1049l"):]
	for _, want := range []string{"panic: the source is broken", "top_test.go", "after the screen: ares top failed: the source is broken"} {
		if !strings.Contains(after, want) {
			t.Errorf("after the screen was restored, the output does not contain %q: %q", want, after)
		}
	}
}

func TestServerRestart(t *testing.T) {
	s := standin.Start(t, 3)
	term := start(t, s, 100, 24, "--interval", "500ms")
	term.see("gpu-0002")
	s.Stop()
	term.see("No answer since", "trying again", "gpu-0002")
	s.Restart()
	term.see("The server answers again, after", "gpu-0002")
	term.send("q")
	if code := term.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	term.restored()
}

// Ctrl-Z gives the terminal back to the shell, and fg shows the screen again.
func TestSuspend(t *testing.T) {
	s := standin.Start(t, 3)
	term := open(t, 100, 24, []string{"ARES_SERVER=" + s.Address, "ARES_DATA_DIR=" + t.TempDir(), "PS1=ready> "}, "bash", "--norc", "--noprofile", "--noediting", "-i")
	term.see("ready>")
	term.send(live.Ares.Path(t) + " top\n")
	term.see("gpu-0002", "q quit")
	term.send("\x1a")
	term.see("Stopped", "ready>")
	term.restored()
	asked := s.Asked("ListNodes")
	term.send("echo $((40 + 2))\n")
	term.see("42") // the shell reads and answers; its prompt may come before or after what was typed
	term.send("fg\n")
	term.await("the screen again", func(screen string) bool {
		_, alternate := term.screen()
		return alternate && strings.Contains(screen, "gpu-0002") && s.Asked("ListNodes") > asked
	})
	term.send("2")
	term.see("[2 devices]")
	term.send("q")
	term.await("the shell's own screen", func(screen string) bool {
		_, alternate := term.screen()
		return !alternate && strings.Contains(screen, "42")
	})
	term.send("echo code $?\n")
	term.see("code 0")
	term.restored()
	term.send("exit\n")
	term.exit()
}

// Without a shell nobody could continue the program, so that Ctrl-Z must not stop it.
func TestSuspendWithoutShell(t *testing.T) {
	term := start(t, standin.Start(t, 3), 100, 24)
	term.see("gpu-0002")
	term.send("\x1a")
	term.see("no shell with job control")
	term.send("q")
	if code := term.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	term.restored()
}

// A terminal that can only print lines gets text.
func TestDumbTerminal(t *testing.T) {
	for _, name := range []string{"TERM=dumb", "TERM="} {
		s := standin.Start(t, 3)
		term := open(t, 80, 24, []string{"ARES_SERVER=" + s.Address, "ARES_DATA_DIR=" + t.TempDir(), name}, live.Ares.Path(t), "top")
		if code := term.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if text := term.output(); !strings.Contains(text, "gpu-0002") || strings.Contains(text, "\x1b[?") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestNoServer(t *testing.T) {
	s := standin.Start(t, 1)
	s.Stop()
	term := start(t, s, 80, 24)
	if code := term.exit(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if text := term.output(); !strings.Contains(text, "no server answers at "+s.Address) || strings.Contains(text, "\x1b[?1049h") {
		t.Errorf("%q", text)
	}
}
