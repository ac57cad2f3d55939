//go:build linux

package run

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mountWorld has a directory that jobs may mount, with a directory and a file of the job's user.
func mountWorld(t *testing.T) (w *world, allowed string) {
	w = newWorld(t)
	runcPath(t)
	allowed = w.open()
	for _, name := range []string{"in", "out"} {
		w.makeDir(filepath.Join(allowed, name), 0o755)
		w.put(filepath.Join(allowed, name, "file"), name+"\n")
	}
	if err := os.Chown(filepath.Join(allowed, "out"), int(tenantA.UID), int(tenantA.GID)); err != nil {
		t.Fatal(err)
	}
	return w, allowed
}

func (w *world) makeDir(path string, mode os.FileMode) {
	w.Helper()
	if err := os.Mkdir(path, mode); err != nil {
		w.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		w.Fatal(err)
	}
}

func (w *world) put(path, content string) {
	w.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) link(to, path string) {
	w.Helper()
	if err := os.Symlink(to, path); err != nil {
		w.Fatal(err)
	}
}

// mounting is a job with mounts. The source and the target of each are separated by a colon, as on the command line.
func (w *world) mounting(allowed, script string, mounts ...string) Spec {
	w.Helper()
	spec := w.inImage(sh(script))
	spec.Container.Data = ""
	for _, text := range mounts {
		words := strings.Split(text, ":")
		spec.Container.Mounts = append(spec.Container.Mounts, Mount{
			Source: filepath.Join(allowed, words[0]), Target: words[1], Below: allowed, ReadOnly: len(words) > 2,
		})
	}
	return spec
}

// A job sees what it mounts, with the owners and rights of the machine, and cannot use device files or set-user-ID bits there. What is
// mounted below is there too, with the same restrictions.
func TestMounts(t *testing.T) {
	w, allowed := mountWorld(t)
	// The supervisor inherits the mounts of this thread, which ends with the test.
	runtime.LockOSThread()
	below := filepath.Join(allowed, "in", "below")
	w.makeDir(below, 0o755)
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("test", below, "tmpfs", 0, "mode=0777"); err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(below, "deep"), "deep\n")
	spec := w.mounting(allowed, `cat /in/file /in/below/deep /new/dir/file /etc/one
		echo more > /new/dir/more; touch /in/x; touch /in/below/x; touch /new/dir/mine /new/dir/file; stat -c %u /new/dir/more /in/file
		grep -E " (/in|/in/below|/new/dir|/etc/one) " /proc/self/mountinfo | while read -r a b c d path options rest; do echo "$path $options"; done`,
		"in:/in:ro", "out:/new/dir", "in/file:/etc/one:ro")
	w.want(w.start(spec), Exited, 0)
	want := fmt.Sprintf(`in
deep
out
in
touch: /in/x: Read-only file system
touch: /in/below/x: Read-only file system
touch: /new/dir/file: Permission denied
%d
0
/in ro,nosuid,nodev,relatime
/in/below ro,nosuid,nodev,relatime
/new/dir rw,nosuid,nodev,relatime
/etc/one ro,nosuid,nodev,relatime
`, tenantA.UID)
	if log := w.log(spec.Key); log != want {
		t.Errorf("the output is\n%s\nwant\n%s", log, want)
	}
	if b, err := os.ReadFile(filepath.Join(allowed, "out", "more")); string(b) != "more\n" {
		t.Errorf("the machine has %q (%v) where the job wrote", b, err)
	}
}

// A job whose mount is not possible never starts, and the reason says what to do.
func TestMountsRefused(t *testing.T) {
	w, allowed := mountWorld(t)
	secret := filepath.Join(w.open(), "secret")
	w.makeDir(secret, 0o755)
	w.put(filepath.Join(secret, "file"), "secret\n")
	at := func(name string) string { return filepath.Join(allowed, name) }
	w.link(secret, at("link"))
	w.link("in", at("inside"))
	w.link("../../../../../../.."+secret, at("in/up"))
	w.makeDir(at("closed"), 0o700)
	w.makeDir(at("closed/dir"), 0o777)
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	w.makeLayer("links", func(dir string) {
		w.link("/proc", filepath.Join(dir, "to-proc"))
		w.link("/run/ares", filepath.Join(dir, "to-ares"))
		w.link("/run", filepath.Join(dir, "to-run"))
		w.link("/first", filepath.Join(dir, "to-first"))
		w.link("/nowhere", filepath.Join(dir, "dangling"))
		w.put(filepath.Join(dir, "a-file"), "")
		w.link(".", filepath.Join(dir, "to-root"))
	})
	const link, covered, leads = "symbolic link", "another mount covers that path", "on that path: choose another target"
	for i, c := range []struct{ mounts, want string }{
		{"link:/x", link},
		{"link/file:/x", link},
		{"inside:/x", link},
		{"inside/file:/x:ro", link},
		{"in/up:/x", link},
		{"none:/x", "does not exist on the node: create it"},
		{"in/file/below:/x", "not a directory"},
		{"closed/dir:/x", "the job's user may not reach it"},
		{"socket:/x", "neither a directory nor a regular file"},
		{"in:/to-proc/x", covered},
		{"in:/to-proc", covered},
		{"in:/to-ares/x", covered},
		{"in:/to-run", "covers /run/ares"},
		{"in:/tmp", covered},
		{"in:/tmp/x", covered},
		{"in:/dev/x", covered},
		{"out:/first in:/first", covered},
		{"out:/first in:/first/below", covered},
		{"out:/first in:/to-first/below", covered},
		{"out:/first in:/to-first", covered},
		{"in:/dangling", leads},
		{"in:/to-root", "link to its root directory"},
		{"in:/a-file/x", leads},
		{"in:/a-file", "a directory can only be mounted at a directory"},
		{"in/file:/usr", "a directory can only be mounted at a directory"},
	} {
		mark := filepath.Join(w.open(), "started")
		spec := w.mounting(allowed, "touch /mark/started", strings.Fields(c.mounts)...)
		spec.Container.Mounts = append(spec.Container.Mounts, Mount{Source: filepath.Dir(mark), Target: "/mark", Below: filepath.Dir(mark)})
		spec.Container.Layers = append(spec.Container.Layers, "links")
		spec.Key = key(fmt.Sprint("refused-", i))
		res := w.wait(w.start(spec))
		if res.Outcome != SpawnError || !strings.Contains(res.Reason, c.want) || !strings.Contains(res.Reason, "mount ") {
			t.Errorf("%s: the result is %+v, want the reason %q", c.mounts, res, c.want)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: the job was started", c.mounts)
		}
	}
	for name, want := range map[string]int{"in": 2, "out": 1} { // nothing was created as root
		if list, err := os.ReadDir(at(name)); err != nil || len(list) != want {
			t.Errorf("%s has %v (%v), want %d files", name, list, err, want)
		}
	}
}

// What only the agent's groups may enter is closed to a job.
func TestMountsGroups(t *testing.T) {
	w, allowed := mountWorld(t)
	// The supervisor inherits the groups of this thread, which ends with the test.
	runtime.LockOSThread()
	root := uint32(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&root)), 0); errno != 0 {
		t.Fatal(errno)
	}
	w.makeDir(filepath.Join(allowed, "group"), 0o750)
	w.makeDir(filepath.Join(allowed, "group", "dir"), 0o777)
	if res := w.wait(w.start(w.mounting(allowed, "true", "group/dir:/x"))); res.Outcome != SpawnError || !strings.Contains(res.Reason, "may not reach it") {
		t.Errorf("the result is %+v", res)
	}
}

// The image cannot bring the runtime, which is root, to write into a mounted directory: its mount points are made before.
func TestMountsAfterRuntime(t *testing.T) {
	w, allowed := mountWorld(t)
	w.makeLayer("evil", func(dir string) {
		for _, name := range []string{"run", "sys", "dev", "proc", "etc", "tmp"} {
			w.link("/data", filepath.Join(dir, name))
		}
	})
	spec := w.mounting(allowed, "true", "out:/data")
	spec.Container.Layers = append(spec.Container.Layers, "evil")
	w.wait(w.start(spec))
	if list, err := os.ReadDir(filepath.Join(allowed, "out")); err != nil || len(list) != 1 {
		t.Errorf("the runtime has made files in the mounted directory: %v (%v)", list, err)
	}
}

// Nor into the directory of the checkpoints, which is at the same path in the image and on the machine. A link cannot replace the program that
// restricts the job either.
func TestCheckpointsAfterRuntime(t *testing.T) {
	w := newWorld(t)
	data := w.open()
	w.makeDir(filepath.Join(data, "ares"), 0o755)
	b, err := os.ReadFile(supervisorPath)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(data, "ares", "init")
	if err = os.WriteFile(own, append(b, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	w.makeLayer("evil", func(dir string) {
		for _, name := range []string{"run", "sys", "dev", "proc", "etc", "tmp"} {
			w.link(data, filepath.Join(dir, name))
		}
	})
	spec := w.inImage(sh(`grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status; echo saved > ` + data + `/checkpoint`))
	spec.Container.Data, spec.Sandbox.Seccomp = data, true
	spec.Container.Layers = append(spec.Container.Layers, "evil")
	w.want(w.start(spec), Exited, 0)
	if log := w.log(spec.Key); log != "NoNewPrivs:\t1\nSeccomp:\t2\n" {
		t.Errorf("the output is %q", log)
	}
	if list, err := os.ReadDir(data); err != nil || len(list) != 2 {
		t.Errorf("the directory of the checkpoints has %v (%v)", list, err)
	}
	for i, dir := range []string{"/run", "/run/ares"} { // they hide the program
		spec = w.mounting(data, "true", ".:"+dir)
		spec.Key = key(fmt.Sprint("hidden-", i))
		spec.Container.Mounts[0].Source = data
		if res := w.wait(w.start(spec)); res.Outcome != SpawnError {
			t.Errorf("%s: the result is %+v", dir, res)
		}
	}
}

// A user who changes the source while the job starts cannot lead the mount elsewhere.
func TestMountsRace(t *testing.T) {
	w, allowed := mountWorld(t)
	secret := w.open()
	w.put(filepath.Join(secret, "file"), "secret\n")
	at, other := filepath.Join(allowed, "in"), filepath.Join(allowed, "other")
	w.link(secret, other)
	stop := make(chan struct{})
	var exchanging sync.WaitGroup
	exchanging.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer exchanging.Wait()
	defer close(stop)
	for i := range 8 {
		spec := w.mounting(allowed, "cat /x/file", "in:/x")
		spec.Key = key(fmt.Sprint("race-", i))
		if res := w.wait(w.start(spec)); res.Outcome == SpawnError {
			continue
		}
		if log := w.log(spec.Key); log != "in\n" {
			t.Fatalf("the output is %q", log)
		}
	}
}
