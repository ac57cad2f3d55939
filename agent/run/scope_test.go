//go:build linux

package run

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestScope checks that a job cannot reach processes of another job with the same user, nor abstract sockets, and that its own processes can
// still send signals to and trace each other.
func TestScope(t *testing.T) {
	needRoot(t)
	const create, version = 444, 1 // landlock_create_ruleset
	if n, _, errno := syscall.RawSyscall(create, 0, 0, version); errno != 0 || n < 6 {
		t.Skip("no scopes before Linux 6.12")
	}
	w := newWorld(t)
	other := apart(sh("echo up; sleep 1000"))
	other.Key = key("victim")
	victim := w.start(other)
	w.untilUp(other.Key)
	name := fmt.Sprintf("@ares-scope-%d", os.Getpid())
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	pid := fmt.Sprint(victim.Pid())
	attempts := []string{"kill=" + pid, "ptrace=" + pid, "connect=" + name, "compute="}
	said := w.intrude(nil, attempts...)
	for _, a := range attempts[:3] {
		if !strings.HasSuffix(said[a], "operation not permitted") {
			t.Errorf("%s: %q", a, said[a])
		}
	}
	if said["compute="] != "did" {
		t.Errorf("compute: %q", said["compute="])
	}
	// Without the scope, all of them work. The test would otherwise prove nothing.
	said = w.intrude(func(s *Spec) { s.Rank, s.Sandbox.Scoped = 1, false }, "kill="+pid, "connect="+name)
	if said["kill="+pid] != "did" || said["connect="+name] != "did" {
		t.Errorf("without the scope: %v", said)
	}
	spec := apart(sh("sleep 1000 & kill $! && wait $!; echo ended $?"))
	spec.Rank = 2
	w.want(w.start(spec), Exited, 0)
	if log := w.log(spec.Key); !strings.HasSuffix(log, "ended 143\n") {
		t.Errorf("its own child: %q", log)
	}
}
