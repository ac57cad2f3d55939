//go:build linux

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

var screen = TerminalSize{Columns: 100, Rows: 40}

func shell(script string) Command { return Command{Argv: []string{"sh", "-c", script}} }

// jobKinds lists the kinds of jobs that commands run beside.
var jobKinds = map[string]func(*world, Spec) Spec{
	"plain": func(_ *world, s Spec) Spec { return s },
	"apart": func(w *world, s Spec) Spec { needRoot(w.T); return apart(s) },
	"image": func(w *world, s Spec) Spec { return w.inImage(s) },
}

// The method `exec` runs a command beside a job.
func (w *world) exec(p *Proc, cmd Command) *Exec {
	w.Helper()
	x, err := p.Exec(w.ctx, cmd, screen)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = x.Close() })
	return x
}

// The method `output` gives a command its input, and returns what it prints and how it ends.
func (w *world) output(x *Exec, input string) (stdout, stderr string, code int, sig syscall.Signal) {
	w.Helper()
	var out, errs bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.WriteString(x.Input, input)
		_ = x.EndInput()
	})
	wg.Go(func() { _, _ = io.Copy(&out, x.Output) })
	if x.Errors != nil {
		wg.Go(func() { _, _ = io.Copy(&errs, x.Errors) })
	}
	code, sig, err := x.Wait(w.ctx)
	if err != nil {
		w.Error(err)
	}
	x.EndOutput()
	wg.Wait()
	return out.String(), errs.String(), code, sig
}

// answers returns what the attempts of the intruder program led to, from what it has printed.
func answers(log string) map[string]string {
	said := map[string]string{}
	for line := range strings.Lines(log) {
		if attempt, answer, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			said[attempt] = answer
		}
	}
	return said
}

// expect reads until a text has come.
func (w *world) expect(x *Exec, text string) {
	w.Helper()
	var got []byte
	buf := make([]byte, 4<<10)
	for !bytes.Contains(got, []byte(text)) {
		n, err := x.Output.Read(buf)
		if got = append(got, buf[:n]...); err != nil {
			w.Fatalf("%v after %q, want %q", err, got, text)
		}
	}
}

func TestExec(t *testing.T) {
	for name, as := range jobKinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := as(w, sh("echo up; exec sleep 1000"))
			spec.Env, spec.Dir = append(spec.Env, "COLOUR=blue"), "/usr"
			p := w.start(spec)
			w.untilUp(spec.Key)
			x := w.exec(p, shell(`cat; echo bad >&2; echo $COLOUR $ARES_SEAT $(pwd) $(id -u); exit 7`))
			out, errs, code, sig := w.output(x, "typed\n")
			want := fmt.Sprintf("typed\nblue %s /usr %s\n", p.order.Mark, owner(t, p.Pid()))
			if out != want || errs != "bad\n" || code != 7 || sig != 0 {
				t.Errorf("%q %q %d %v, want %q", out, errs, code, sig, want)
			}
			// What the command inherits is what the job has.
			same := []string{"oom_score_adj", "limits", "personality"}
			for _, name := range same {
				job, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Pid(), name))
				if err != nil {
					t.Fatal(err)
				}
				if got, _, _, _ := w.output(w.exec(p, shell("cat /proc/self/"+name)), ""); got != string(job) {
					t.Errorf("%s is %q, the job's is %q", name, got, job)
				}
			}
			job := isolationOf(t, p.Pid())
			x = w.exec(p, shell("exec sleep 1000"))
			if got := isolationOf(t, w.pidOf(p, "sleep 1000", p.Pid())); got != job {
				t.Errorf("isolation of the command:\n%s\nof the job:\n%s", got, job)
			}
			_ = x.Close()
		})
	}
}

func owner(t *testing.T, pid int) string {
	t.Helper()
	st, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(int(st.Sys().(*syscall.Stat_t).Uid))
}

// isolationOf returns what the kernel says about the isolation of a process.
func isolationOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		for _, name := range []string{"Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp", "Umask", "SigIgn"} {
			if strings.HasPrefix(line, name) {
				out.WriteString(line)
			}
		}
	}
	for _, space := range []string{"mnt", "ipc", "net", "pid", "user", "uts", "cgroup", "time"} {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, space))
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(link + "\n")
	}
	cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + string(cgroup)
}

// pidOf finds a process of the job other than its main process, by its command line. The main process may have children, too, but in an image
// those may be processes that a command left behind.
func (w *world) pidOf(p *Proc, line string, not int) (pid int) {
	w.Helper()
	err := until(w.ctx, func() bool {
		procs, _ := os.ReadFile(p.order.Cgroup + "/" + seat.JobGroup + "/cgroup.procs")
		for f := range strings.FieldsSeq(string(procs)) {
			n, _ := strconv.Atoi(f)
			cmd, _ := os.ReadFile("/proc/" + f + "/cmdline")
			parent, _ := os.ReadFile("/proc/" + f + "/stat")
			_, after, _ := strings.Cut(string(parent), ") ")
			fields := strings.Fields(after)
			if n != not && strings.Contains(strings.ReplaceAll(string(cmd), "\x00", " "), line) && len(fields) > 1 && (setInImage || fields[1] != strconv.Itoa(not)) {
				pid = n
			}
		}
		return pid != 0
	})
	if err != nil {
		w.Fatal(err)
	}
	return pid
}

func TestExecTerminal(t *testing.T) {
	for name, as := range jobKinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.start(as(w, sh("sleep 1000")))
			cmd := shell(`trap 'stty size' WINCH; trap 'echo interrupted; exit 5' INT; stty size; test -t 0 && test -t 2 && echo $TERM; : >/dev/tty && echo ready; while :; do sleep 0.05; done`)
			cmd.Terminal, cmd.Env = true, []string{"TERM=dumb"}
			x := w.exec(p, cmd)
			w.expect(x, "40 100\r\ndumb\r\nready\r\n")
			if err := x.Resize(TerminalSize{Columns: 61, Rows: 13}); err != nil {
				t.Fatal(err)
			}
			w.expect(x, "13 61")
			if _, err := x.Input.Write([]byte{3}); err != nil {
				t.Fatal(err)
			}
			w.expect(x, "interrupted")
			if code, sig, err := x.Wait(w.ctx); code != 5 || sig != 0 || err != nil {
				t.Errorf("%d %v %v", code, sig, err)
			}
			// A user who leaves takes the command along.
			cmd = shell("echo ready; exec sleep 1000")
			cmd.Terminal = true
			x = w.exec(p, cmd)
			w.expect(x, "ready")
			pid := w.pidOf(p, "sleep 1000", p.Pid())
			_ = x.Close()
			w.gone(pid)
		})
	}
}

// The method `gone` waits until a process has ended.
func (w *world) gone(pid int) {
	w.Helper()
	if err := until(w.ctx, func() bool { return !lives(pid) }); err != nil {
		w.Errorf("pid %d lives: %v", pid, err)
	}
}

// TestExecSignal sends signals to a command. They reach its children, but not the job.
func TestExecSignal(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("sleep 1000"))
	x := w.exec(p, shell("echo up; sleep 1000 & wait"))
	w.expect(x, "up")
	if err := x.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if code, sig, err := x.Wait(w.ctx); code != 0 || sig != syscall.SIGUSR1 || err != nil {
		t.Errorf("%d %v %v", code, sig, err)
	}
	if !lives(p.Pid()) {
		t.Error("the signal ended the job")
	}
}

// TestExecHangsUp checks that a command ends when the agent leaves, even if it ignores SIGHUP, is stopped, or never uses its files.
func TestExecHangsUp(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("sleep 1000"))
	for _, script := range []string{"echo up; exec sleep 2000", "trap '' HUP; echo up; exec sleep 2000", "echo up; kill -STOP $$; exec sleep 2000"} {
		x := w.exec(p, shell(script))
		w.expect(x, "up")
		pid := w.pidOf(p, "2000", p.Pid())
		_ = x.Close()
		w.gone(pid)
	}
	if !lives(p.Pid()) {
		t.Error("the job ended too")
	}
}

// TestExecHangsUpGroup checks that a process of a command's group ends too, although it ignores SIGHUP and the command itself does not. What
// has left the group stays.
func TestExecHangsUpGroup(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("sleep 1000"))
	x := w.exec(p, shell("n=00; setsid sh -c 'n=00; exec sleep 25$n' & (trap '' HUP; exec sleep 20$n) & echo up; wait"))
	w.expect(x, "up")
	pid, other := w.pidOf(p, "2000", p.Pid()), w.pidOf(p, "2500", p.Pid())
	_ = x.Close()
	w.gone(pid)
	if !lives(other) || !lives(p.Pid()) {
		t.Error("the job, or what has left the group, ended too")
	}
}

// TestExecEndsWithJob ends a job in every way while a command runs beside it, which tries to outlive it.
func TestExecEndsWithJob(t *testing.T) {
	w := newWorld(t)
	for rank, end := range map[int]func(*Proc, Spec){
		0: func(p *Proc, _ Spec) { _ = p.Stop(w.ctx, "test", 0) },
		1: func(p *Proc, _ Spec) { _ = p.Kill(w.ctx) },
		2: func(p *Proc, _ Spec) { _ = syscall.Kill(p.Pid(), syscall.SIGKILL) },
		3: func(p *Proc, _ Spec) { _ = syscall.Kill(w.supervisorPid(p), syscall.SIGKILL) },
		4: func(*Proc, Spec) {}, // it is fenced, because nothing renews its lease
	} {
		t.Run(strconv.Itoa(rank), func(t *testing.T) {
			spec := sh("sleep 1000")
			spec.Rank = rank
			if rank == 4 {
				spec.LostAfter = 4 * time.Second
			}
			p := w.start(spec)
			x := w.exec(p, shell("trap '' HUP TERM INT; (setsid sh -c 'trap \"\" HUP TERM; sleep 3000' &) ; echo up; sleep 3000"))
			w.expect(x, "up")
			pid := w.pidOf(p, "sleep 3000", p.Pid())
			end(p, spec)
			w.wait(p)
			if lives(pid) {
				t.Error("the command lives after the job's seat is free")
			}
			if _, _, err := x.Wait(w.ctx); !errors.Is(err, ErrEnded) {
				t.Errorf("the command's end is %v", err)
			}
			if _, err := p.Exec(w.ctx, shell("true"), screen); !errors.Is(err, ErrEnded) {
				t.Errorf("a command of an ended job: %v", err)
			}
		})
	}
}

// TestExecRacesWithEnd requests commands while jobs end. The method `wait` checks that nothing is left of them.
func TestExecRacesWithEnd(t *testing.T) {
	w := newWorld(t)
	rounds := 60
	if setInImage {
		rounds = 18 // their starts take much longer
	}
	for rank := range rounds {
		spec := sh("sleep 0.0" + strconv.Itoa(rank%6))
		spec.Rank = rank
		if rank%2 == 1 && os.Getuid() == 0 {
			spec = apart(spec)
		}
		p := w.start(spec)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					x, err := p.Exec(w.ctx, shell("exec sleep 3000"), screen)
					if err != nil {
						return
					}
					_ = x.Close()
				}
			})
		}
		res := w.wait(p)
		wg.Wait()
		if res.Outcome != Exited || res.ExitCode != 0 {
			t.Errorf("%+v", res)
		}
		if err := w.Forget(p.Key()); err != nil {
			t.Error(err)
		}
	}
}

// TestExecLeavesChildren checks that a process that a command left behind does not keep the session open, and that nothing of the output is
// lost.
func TestExecLeavesChildren(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("sleep 1000"))
	out, _, code, _ := w.output(w.exec(p, shell("sleep 3000 & head -c 3000000 /dev/zero; echo end")), "")
	if len(out) != 3_000_004 || !strings.HasSuffix(out, "end\n") || code != 0 {
		t.Errorf("%d bytes, code %d", len(out), code)
	}
	pid := w.pidOf(p, "sleep 3000", p.Pid())
	_ = p.Kill(w.ctx)
	w.wait(p)
	if lives(pid) {
		t.Error("it outlived the job")
	}
}

func TestExecLimits(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("sleep 1000"))
	var all []*Exec
	for range MaxExecs {
		all = append(all, w.exec(p, shell("exec cat")))
	}
	if _, err := p.Exec(w.ctx, shell("true"), screen); err == nil || !strings.Contains(err.Error(), "8 sessions") {
		t.Errorf("one too many: %v", err)
	}
	// Requests of other clients do not end the commands.
	for range 40 {
		conn, err := p.dial(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if err := p.Renewed(w.ctx, Now()); err != nil {
		t.Error(err)
	}
	for _, x := range all {
		if out, _, code, _ := w.output(x, "hello"); out != "hello" || code != 0 {
			t.Errorf("%q %d", out, code)
		}
	}
	if _, _, code, _ := w.output(w.exec(p, shell("exit 3")), ""); code != 3 {
		t.Errorf("after the others: code %d", code)
	}
}

func TestExecRefused(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("sleep 1000"))
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, "empty"},
		{[]string{""}, "empty"},
		{[]string{"a\x00b"}, "NUL"},
		{[]string{"echo", strings.Repeat("x", 40_000)}, "32 KiB"},
		{[]string{"no-such-program"}, "command not found: no-such-program"},
		{[]string{"/"}, "is a directory"},
		{[]string{"/etc/passwd"}, "not executable"},
	} {
		if _, err := p.Exec(w.ctx, Command{Argv: c.argv}, screen); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.argv, err, c.want)
		}
	}
	long := []string{"printf", "%s", strings.Repeat("x", 32_000)}
	if out, _, _, _ := w.output(w.exec(p, Command{Argv: long}), ""); len(out) != 32_000 {
		t.Errorf("long argument: %d bytes", len(out))
	}
	// A request without files, or with too many.
	for _, n := range []int{0, 1, 3} {
		conn, err := p.dial(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		if _, _, err := conn.(*net.UnixConn).WriteMsgUnix([]byte(seat.ExecRequest), syscall.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		var buf [200]byte
		if k, err := conn.Read(buf[:]); err != nil || !strings.Contains(string(buf[:k]), "wrong number of files") {
			t.Errorf("%d files: %q %v", n, buf[:k], err)
		}
		_, _ = conn.Close(), null.Close()
	}
	// A job that is being stopped gets no more commands.
	spec := sh("trap '' TERM; echo up; while :; do sleep 0.01; done")
	spec.Rank = 1
	p = w.start(spec)
	w.untilUp(spec.Key) // it ignores SIGTERM from now on
	if err := p.Stop(w.ctx, "test", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(w.ctx, shell("true"), screen); err == nil || !strings.Contains(err.Error(), "ending") {
		t.Errorf("a job that ends: %v", err)
	}
}
