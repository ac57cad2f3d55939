//go:build linux

package run

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOwnNetwork checks that a job with a network of its own reaches neither the loopback interface nor the abstract sockets of the machine,
// and that it can connect to itself. The same holds for a job in an image and for a command of a session. The agent reaches the job's ports.
func TestOwnNetwork(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		own  bool
		make func(w *world, spec Spec) Spec
	}{
		"plain":            {true, func(_ *world, s Spec) Spec { return s }},
		"image":            {true, func(w *world, s Spec) Spec { return w.inImage(s) }},
		"with the network": {false, func(_ *world, s Spec) Spec { return s }}, // otherwise the test would prove nothing
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			abstract, port := w.listenOutside()
			attempts := []string{"connect=" + abstract, "dial=" + port}
			dir := w.withIntruder()
			spec := c.make(w, apart(sh("echo up; cat /proc/net/dev; "+SandboxWork+"/intruder '"+strings.Join(attempts, "' '")+"'; exec sleep 1000")))
			// Without the scope, only the namespace is between the job and the abstract socket.
			spec.Sandbox.OwnNetwork, spec.Sandbox.Scoped, spec.Sandbox.Scratch, spec.Dir = c.own, false, dir, "/"
			p := w.start(spec)
			if err := until(w.ctx, func() bool { return strings.Contains(w.log(spec.Key), attempts[1]+": ") }); err != nil {
				t.Fatal(err, w.log(spec.Key))
			}
			w.checkOutside("the job", c.own, attempts, answers(w.log(spec.Key)))
			for name := range answers(w.log(spec.Key)) {
				if c.own && !strings.Contains(name, "=") && name != "lo" {
					t.Errorf("it has the interface %s", name)
				}
			}
			if spec.Container.Runtime == "" {
				out, _, _, _ := w.output(w.exec(p, Command{Argv: append([]string{SandboxWork + "/intruder"}, attempts...)}), "")
				w.checkOutside("a command of a session", c.own, attempts, answers(out))
			}
			if err := p.Kill(w.ctx); err != nil {
				t.Error(err)
			}
			w.wait(p)
		})
	}
}

// listenOutside listens on the machine, on an abstract socket and on a port.
func (w *world) listenOutside() (abstract, port string) {
	w.Helper()
	abstract = fmt.Sprintf("@ares-outside-%d-%s", os.Getpid(), filepath.Base(w.dir))
	for network, address := range map[string]string{"unix": abstract, "tcp": "127.0.0.1:0"} {
		l, err := net.Listen(network, address)
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = l.Close() })
		if network == "tcp" {
			port = l.Addr().String()
		}
	}
	return abstract, port
}

func (w *world) checkOutside(who string, own bool, attempts []string, said map[string]string) {
	w.Helper()
	for _, a := range attempts {
		if reached := said[a] == "did"; said[a] == "" || reached == own {
			w.Errorf("%s, own network %v: %s: %q", who, own, a, said[a])
		}
	}
}

// A runtime that takes the container to another network would give the job what it must not have. Such a job must not start.
func TestContainerOutsideItsNetwork(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(w.open(), "started")
	spec := w.inImage(sh("touch " + mark))
	spec.Sandbox.OwnNetwork, spec.Container.Runtime = true, w.runtimeScript(`exec unshare --net `+runcPath(t)+` "$@"`)
	res := w.wait(w.start(spec))
	if res.Outcome != Lost || !strings.Contains(res.Reason, "another network than the job's own") {
		t.Errorf("the result is %+v", res)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the job was started")
	}
}

// TestDialOwnNetwork connects to a port of a job with a network of its own, also after a restart of the agent. The same port of the machine
// is not the job's.
func TestDialOwnNetwork(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	_, number, _ := net.SplitHostPort(outside.Addr().String())
	taken, _ := strconv.Atoi(number)
	for rank, at := range []string{"127.0.0.1:" + number, "0.0.0.0:0", "[::1]:0"} {
		file := filepath.Join(w.open(), "port")
		spec := apart(sh(""))
		spec.Rank, spec.Argv, spec.Sandbox.OwnNetwork = rank, []string{w.listener()}, true
		spec.Env = append(spec.Env, listenEnv+"="+at+","+file)
		p := w.start(spec)
		port := 0
		if err := until(w.ctx, func() bool {
			b, _ := os.ReadFile(file)
			port, _ = strconv.Atoi(string(b))
			return port != 0
		}); err != nil {
			t.Fatal(err, w.lastWords(p.Key()), w.log(spec.Key))
		}
		found, err := w.again().Find(w.ctx)
		i := slices.IndexFunc(found, func(f Found) bool { return f.Key == spec.Key })
		if err != nil || i < 0 {
			t.Fatal(found, err)
		}
		for who, p := range map[string]*Proc{"the agent": p, "a restarted agent": found[i].Proc} {
			conn, err := p.Dial(w.ctx, uint16(port))
			if err != nil {
				t.Errorf("%s at %s: %v", who, at, err)
				continue
			}
			var got [5]byte
			if _, err := conn.Read(got[:]); err != nil || string(got[:]) != "hello" {
				t.Errorf("%s at %s: %q %v", who, at, got, err)
			}
			_ = conn.Close()
			if port == taken {
				continue
			}
			if conn, err := p.Dial(w.ctx, uint16(taken)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("it listens on %d", port)) {
				t.Errorf("a port of the machine: %v %v", conn, err)
			}
		}
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil && port != taken {
			_ = conn.Close()
			t.Errorf("the job listens on the machine's port %d", port)
		}
		_ = p.Kill(w.ctx)
		w.wait(p)
	}
}

// listener returns a copy of the test binary that other users can execute.
func (w *world) listener() string {
	w.Helper()
	to := filepath.Join(w.open(), "listener")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(to, b, 0o755) //nolint:gosec // a program
	}
	if err != nil {
		w.Fatal(err)
	}
	return to
}

// TestOwnNetworkFails uses a machine that has no network namespaces. The job must not run with the machine's network instead.
func TestOwnNetworkFails(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	w.noNetwork = "the test says so"
	spec := apart(sh("true"))
	spec.Sandbox.OwnNetwork = true
	if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), "the test says so") {
		t.Errorf("started with the network: %v", err)
	}
	w.noNetwork, spec.User, spec.Sandbox = "", nil, Sandbox{OwnNetwork: true}
	if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), "separate user") {
		t.Errorf("started as a user who can leave the network: %v", err)
	}
}
