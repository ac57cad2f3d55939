package screens

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/e2e/terminal"
)

// watching reports whether the screen shows a watched list, and the user's own screen is safe.
func watching(s *terminal.Screen) bool {
	return s.Alternate && s.Hidden && strings.HasPrefix(s.String(), "ID ") && strings.Contains(s.String(), "sweep-7")
}

// restored reports whether the terminal is as the user left it.
func restored(s *terminal.Screen) bool { return !s.Alternate && !s.Hidden && !s.NoWrap }

// TestWatch checks a watched list: running jobs come first, changes and a new size of the terminal are drawn, and Ctrl-C restores the screen.
func TestWatch(t *testing.T) {
	t.Parallel()
	f := &fake{jobs: someJobs()}
	x := terminal.Start(t, 80, 8, serve(t, f)("ps", "--watch"))
	first := x.Await("the list", watching)
	lines := strings.Split(first.String(), "\n")
	if !strings.Contains(lines[1], "scheduled") || !strings.Contains(lines[2], "running") || !strings.Contains(lines[3], "sweep-7") {
		t.Errorf("running jobs must come first:\n%s", first)
	}
	compare(t, "watch", first.String())

	jobs := someJobs()
	changed := proto.CloneOf(jobs[0])
	changed.State, changed.WaitingFor = "running", nil
	f.set(append([]*apipb.Job{changed}, jobs[1:]...))
	x.AwaitText(`sweep-7.* running`)

	for range 5 { // more jobs than rows: the header stays, the others are counted
		jobs = append(jobs, jobs...)
	}
	for i := range jobs {
		jobs[i] = proto.CloneOf(jobs[i])
		jobs[i].JobId = jobID(strings.Repeat(string(rune('b'+i%20)), 1+i/20))
	}
	f.set(jobs)
	if s := x.AwaitText(`^\d+ more$`); !strings.HasPrefix(s.String(), "ID ") {
		t.Errorf("the header is not on the first line:\n%s", s)
	}

	x.Resize(60, 12)
	small := x.Await("the list at 60 columns", func(s *terminal.Screen) bool {
		return strings.HasPrefix(s.String(), "ID ") && strings.Contains(s.String(), " more") && strings.Count(s.String(), "\n") == 12
	})
	if strings.Contains(small.String(), "TENANT") {
		t.Errorf("the terminal became smaller, and the list did not:\n%s", small)
	}
	if len(small.Unknown) > 0 {
		t.Errorf("unknown control sequences: %q", small.Unknown)
	}

	x.Send("\x1a") // no shell could continue the program, so it goes on
	x.Send("\x03")
	if code := x.Wait(); code != 0 || !restored(x.Screen()) {
		t.Errorf("exit code %d, restored %t", code, restored(x.Screen()))
	}
}

// TestWatchIsKilled checks that the screen is restored after the signals with which programs are ended.
func TestWatchIsKilled(t *testing.T) {
	t.Parallel()
	ares := serve(t, &fake{jobs: someJobs()})
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		x := terminal.Start(t, 80, 20, ares("job", "list", "--watch"))
		x.Await("the list", watching)
		x.Signal(sig)
		x.Wait()
		if !restored(x.Screen()) {
			t.Errorf("%s: the screen is not restored: %q", sig, x.Raw())
		}
	}
}

// TestWatchIsSuspended checks that Ctrl-Z gives the user the screen back, and that the list comes again with fg.
func TestWatchIsSuspended(t *testing.T) {
	t.Parallel()
	list := serve(t, &fake{jobs: someJobs()})("ps", "--watch")
	shell := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-i")
	shell.Env, shell.Dir = append(slices.Clone(list.Env), "PS1=ready> ", "TERM=xterm-256color"), list.Dir
	x := terminal.Start(t, 80, 20, shell)
	x.AwaitText(`ready>`)
	x.Send(strings.Join(list.Args, " ") + "\n")
	x.Await("the list", watching)
	x.Send("\x1a")
	x.Await("the shell", func(s *terminal.Screen) bool { return restored(s) && strings.Contains(s.String(), "Stopped") })
	x.Send("fg\n")
	x.Await("the list again", watching)
	x.Send("\x03")
	x.Await("the shell again", restored)
	x.Send("exit\n")
	x.Wait()
}

// TestWatchWithoutCursor checks that a terminal that cannot move its cursor gets lines without control sequences.
func TestWatchWithoutCursor(t *testing.T) {
	t.Parallel()
	ares := serve(t, &fake{jobs: someJobs()})
	for _, term := range []string{"", "dumb"} {
		cmd := ares("node", "list", "--watch")
		cmd.Env = slices.DeleteFunc(cmd.Env, func(s string) bool { return strings.HasPrefix(s, "TERM=") })
		if term != "" {
			cmd.Env = append(cmd.Env, "TERM="+term)
		}
		x := terminal.Start(t, 80, 24, cmd)
		x.AwaitText(`gpu-2 +online`)
		x.Send("\x03")
		if code := x.Wait(); code != 0 || strings.Contains(x.Raw(), "\x1b") {
			t.Errorf("TERM=%s: exit code %d, %q", term, code, x.Raw())
		}
	}
}
