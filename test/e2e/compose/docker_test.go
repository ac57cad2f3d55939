package compose_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
	"github.com/ares-scheduler/ares/test/namespaces"
)

// TestMain moves into namespaces in which all ports and Docker's default socket
// are free. Docker's daemon needs root permissions.
func TestMain(m *testing.M) { os.Exit(namespaces.Run(m, true)) }

// startDocker starts Docker's daemon and waits until it answers. At the end of
// the test, the daemon stops its containers and ends.
func startDocker(t *testing.T) {
	t.Helper()
	var found []string
	for _, name := range []string{"dockerd", "docker-compose", "busybox"} {
		found = append(found, filepath.Dir(program(t, name)))
	}
	// Client and daemon must be of the same package, even if another client comes first on the PATH.
	t.Setenv("PATH", found[0]+":"+found[1]+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("set up the loopback interface: %v: %s", err, out)
	}
	removeStale(t)
	dir, err := os.MkdirTemp("", "ares-compose-") //nolint:usetesting // the daemon must have ended before it is removed
	if err != nil {
		t.Fatal(err)
	}
	lock, free := tryLock(dir)
	if !free {
		t.Fatalf("%s is locked", dir)
	}
	group := filepath.Base(dir)
	// The containers need no way out of the machine. Without iptables, Docker publishes ports with its proxy.
	daemon := cluster.NewProcess(t, dir, cluster.Command{Name: "dockerd", Argv: []string{
		"dockerd", "--data-root", filepath.Join(dir, "data"), "--iptables=false", "--ip6tables=false",
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/" + group, "--shutdown-timeout", "10",
	}})
	t.Cleanup(func() {
		daemon.Stop(syscall.SIGTERM, 30*time.Second)
		daemon.End()
		if t.Failed() {
			t.Logf("the end of Docker's log:\n%s", tail(daemon.Log()))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove Docker's data: %v", err)
		}
		removeGroups(t, group)
		_ = lock.Close()
	})
	live.Await(t, time.Minute, "Docker to start", func() (bool, string) {
		select {
		case <-daemon.Ended():
			t.Fatal("Docker's daemon cannot run on this machine")
		default:
		}
		out, err := exec.CommandContext(t.Context(), "docker", "version").CombinedOutput()
		return err == nil, string(out)
	})
}

// The function `program` finds a program that `make test` installs.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name} { // users have no /usr/sbin in their PATH on Debian
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Fatalf("this test needs %s: run tools/needs %s at the root of the repository", name, name)
	return ""
}

// tryLock locks a directory until the file is closed or this process ends. It
// reports whether no other process has locked it.
func tryLock(dir string) (*os.File, bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, false
	}
	return f, true
}

// removeStale removes what tests have left that were killed.
func removeStale(t *testing.T) {
	t.Helper()
	older := func(path string, than time.Duration) bool {
		info, err := os.Stat(path)
		return err == nil && time.Since(info.ModTime()) > than
	}
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "ares-compose-*")) // the pattern is valid
	for _, dir := range dirs {
		if !older(dir, time.Minute) { // it may not be locked yet
			continue
		}
		if lock, free := tryLock(dir); free {
			removeGroups(t, filepath.Base(dir))
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("remove what an earlier test left: %v", err)
			}
			_ = lock.Close()
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/ares-compose-*", "/sys/fs/cgroup/ares-compose-*"} {
		groups, _ := filepath.Glob(pattern) // the pattern is valid
		for _, group := range groups {
			// Its directory is gone, or belongs to a test with another TMPDIR. A test takes a few minutes.
			if _, err := os.Stat(filepath.Join(os.TempDir(), filepath.Base(group))); os.IsNotExist(err) && older(group, time.Hour) {
				removeGroups(t, filepath.Base(group))
			}
		}
	}
}

// TestRemoveStale has the directory of a killed test and one of a test that runs.
func TestRemoveStale(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, runs := filepath.Join(os.TempDir(), "ares-compose-killed"), filepath.Join(os.TempDir(), "ares-compose-runs")
	past := time.Now().Add(-2 * time.Minute)
	for _, dir := range []string{killed, runs} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "data"), 0o700), os.Chtimes(dir, past, past)); err != nil {
			t.Fatal(err)
		}
	}
	lock, free := tryLock(runs)
	if !free {
		t.Fatal("a new directory is locked")
	}
	defer func() { _ = lock.Close() }()
	removeStale(t)
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("the directory of a killed test: %v", err)
	}
	if _, err := os.Stat(runs); err != nil {
		t.Errorf("the directory of a test that runs: %v", err)
	}
}

// removeGroups removes the empty cgroups that Docker leaves, in every hierarchy.
func removeGroups(t *testing.T, group string) {
	t.Helper()
	left, err := filepath.Glob("/sys/fs/cgroup/*/" + group)
	if err != nil {
		t.Error(err)
	}
	for _, top := range append(left, "/sys/fs/cgroup/"+group) {
		var dirs []string
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error { // it may not exist
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) { // a group after those in it
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	}
}

// The function `tail` returns the last part of a text.
func tail(text string) string { return text[max(0, len(text)-3000):] }
