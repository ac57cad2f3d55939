//go:build linux

package run

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The method `served` answers the processes of a job at its socket until the returned function is called.
func (w *world) served(p *Proc) (stop func()) {
	w.Helper()
	l, err := p.ListenJob()
	if err != nil {
		w.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if key, ok := CallerOf(conn.RemoteAddr()); !ok || key != p.Key() {
				w.Errorf("the caller is of seat %v", key)
			}
			_, _ = conn.Write([]byte("x"))
			_ = conn.Close()
		}
	})
	stop = sync.OnceFunc(func() { _ = l.Close(); wg.Wait() })
	w.Cleanup(stop)
	return stop
}

// The method `asks` lets a process of the job make the intruder program's attempts.
func (w *world) asks(p *Proc, program string, attempts ...string) map[string]string {
	w.Helper()
	out, errs, _, _ := w.output(w.exec(p, Command{Argv: append([]string{program}, attempts...)}), "")
	if errs != "" {
		w.Error(errs)
	}
	return answers(out)
}

// jobSocketPath returns the path of a seat's socket on the machine.
func (w *world) jobSocketPath(k Key) string {
	return filepath.Join(w.dir, seatPath(k, seat.JobDir), seat.JobSocket)
}

func TestJobSocket(t *testing.T) {
	kinds := map[string]func(*world, Spec) Spec{"alone": func(w *world, s Spec) Spec {
		needRoot(w.T)
		s = apart(s)
		s.Sandbox.OwnNetwork = w.noNetwork == ""
		return s
	}}
	for name, as := range jobKinds {
		kinds[name] = as
	}
	for name, as := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := as(w, sh("echo up; exec sleep 1000"))
			program := intruderPath
			if spec.Sandbox.Private {
				spec.Sandbox.Scratch, program = w.withIntruder(), SandboxWork+"/intruder"
			}
			p := w.start(spec)
			w.untilUp(spec.Key)
			stop := w.served(p)
			dir := filepath.Dir(p.order.JobSocket)
			said := w.asks(p, program, "ask=", "ask="+p.order.JobSocket, "write="+dir+"/new")
			if said["ask="] != "answered" || said["ask="+p.order.JobSocket] != "answered" {
				t.Errorf("the job is told %v", said)
			}
			if answer := said["write="+dir+"/new"]; spec.Sandbox.Private && !matches(answer, readOnly) {
				t.Errorf("a new file beside the job's socket: %q", answer)
			}
			st, err := os.Stat(w.jobSocketPath(spec.Key))
			if err != nil || st.Mode() != fs.ModeSocket|0o600 || p.order.User != nil && st.Sys().(*syscall.Stat_t).Uid != p.order.User.UID {
				t.Errorf("the socket is %v, %+v, %v", st.Mode(), st.Sys(), err)
			}
			// This process may open the socket, as root or as the job's own user, but it is not in the seat's cgroup.
			if err := ask(w.jobSocketPath(spec.Key)); !errors.Is(err, io.EOF) {
				t.Errorf("a process outside of the job is told %v", err)
			}
			// The next agent makes the socket at the same path, and a process of the job that was there before reaches it.
			stop()
			_ = w.Close()
			w.Runner = w.again().Runner
			found, err := w.Find(w.ctx)
			if err != nil || len(found) != 1 || found[0].Proc == nil {
				t.Fatalf("found %+v, %v", found, err)
			}
			p = found[0].Proc
			defer w.served(p)()
			if said = w.asks(p, program, "ask="); said["ask="] != "answered" {
				t.Errorf("after a restart of the agent, the job is told %v", said)
			}
			if err := p.Kill(w.ctx); err != nil {
				t.Fatal(err)
			}
			w.wait(p)
			if err := w.Forget(spec.Key); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(w.dir, logsDir, spec.Key.String(), seat.JobDir)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory of the socket is left: %v", err)
			}
		})
	}
}

// ask connects to a socket and waits for what its server says.
func ask(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}

// TestJobSocketOfAnotherJob connects from a job to the socket of another job of the same user.
func TestJobSocketOfAnotherJob(t *testing.T) {
	w := newWorld(t)
	first, second := sh("echo up; exec sleep 1000"), sh("echo up; exec sleep 1000")
	second.Key = key("other")
	p, other := w.start(first), w.start(second)
	w.untilUp(first.Key)
	w.untilUp(second.Key)
	defer w.served(p)()
	defer w.served(other)()
	path := w.jobSocketPath(first.Key)
	said := w.asks(other, intruderPath, "ask=", "ask="+path)
	if said["ask="] != "answered" || said["ask="+path] != "closed" {
		t.Errorf("a process of another job of the user is told %v", said)
	}
}

// TestJobSocketLimit opens more connections than a seat may have.
func TestJobSocketLimit(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("echo up; exec sleep 1000"))
	w.untilUp(p.Key())
	l, err := p.ListenJob()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all []*jobConn
	admit := func() bool {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		closeAll(pair[1])
		f := os.NewFile(uintptr(pair[0]), "test")
		defer f.Close()
		conn, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		c, ok := l.add(conn.(*net.UnixConn))
		all = append(all, c)
		return ok
	}
	for n := range JobCallers {
		if !admit() {
			t.Fatalf("connection %d is refused", n+1)
		}
	}
	if admit() {
		t.Error("there is no limit")
	}
	if err := all[0].Close(); err != nil || !admit() {
		t.Errorf("a closed connection counts, %v", err)
	}
}

// TestNoJobSocket starts a job where the kernel cannot tell who connects, and where there are no cgroups.
func TestNoJobSocket(t *testing.T) {
	w := newWorld(t)
	if w.NoJobSocket() != "" || !strings.Contains((&Runner{why: "no cgroups"}).NoJobSocket(), "no cgroups") {
		t.Errorf("reason %q", w.NoJobSocket())
	}
	w.noJobSocket = "the test says so"
	spec := sh(`echo "socket: $ARES_JOB_SOCKET."`)
	spec.Env = append(spec.Env, "ARES_JOB_SOCKET=/forged")
	p := w.start(spec)
	if _, err := p.ListenJob(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket without the check: %v", err)
	}
	w.want(p, Exited, 0)
	if log := w.log(spec.Key); log != "socket: .\n" {
		t.Errorf("log %q", log)
	}
}
