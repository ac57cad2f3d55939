//go:build linux

package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// If setInImage is true, the test helper `start` runs every job in an image.
var setInImage bool

// If setRoot is true, every job in an image is root in it.
var setRoot bool

// runcPath is the OCI runtime of the tests.
func runcPath(t *testing.T) string {
	t.Helper()
	needRoot(t)
	path, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal("the tests of images need runc: run `make needs`, or install it")
	}
	return path
}

// inImage makes a job run in an image with the usual programs. The job sees the directory of temporary files, so that it can write there.
func (w *world) inImage(spec Spec) Spec {
	w.Helper()
	spec = apart(spec)
	spec.Container = Container{Runtime: runcPath(w.T), Dir: filepath.Join(w.dir, "layers"), Layers: []string{"tools"}, Data: os.TempDir(), Root: setRoot}
	spec.Dir = "/"
	w.makeLayer("tools", func(dir string) {
		for _, program := range []string{"busybox", "setsid", "id"} {
			w.copyProgram(dir, program)
		}
		for _, name := range []string{"sh", "sleep", "cat", "env", "echo", "ls", "rm", "mkdir", "seq", "kill", "stat", "dd", "grep", "touch", "true", "mount", "mknod", "head", "stty", "ps", "pwd", "printf", "readlink", "unshare", "top"} {
			if err := os.Symlink("/usr/bin/busybox", filepath.Join(dir, "usr/bin", name)); err != nil {
				w.Fatal(err)
			}
		}
		if err := os.Symlink("usr/bin", filepath.Join(dir, "bin")); err != nil {
			w.Fatal(err)
		}
	})
	return spec
}

// makeLayer makes a layer once in each world.
func (w *world) makeLayer(name string, fill func(dir string)) {
	w.Helper()
	dir := filepath.Join(w.dir, "layers", name, seat.LayerTree)
	if _, err := os.Stat(dir); err == nil {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.Fatal(err)
	}
	fill(dir)
}

// copyProgram copies a program of this machine, and the libraries it needs, to the same paths below a directory.
func (w *world) copyProgram(dir, name string) {
	w.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		w.Skip(err)
	}
	files := []string{path}
	out, _ := exec.Command("ldd", path).Output() // fails for a static program
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "/") {
			files = append(files, word)
		}
	}
	for _, file := range files {
		to := filepath.Join(dir, file)
		in, err := os.Open(file)
		if err != nil {
			w.Fatal(err)
		}
		err = os.MkdirAll(filepath.Dir(to), 0o755)
		var f *os.File
		if err == nil {
			f, err = os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
		}
		if err == nil {
			_, err = io.Copy(f, in)
			err = errors.Join(err, f.Close())
		}
		if err = errors.Join(err, in.Close()); err != nil {
			w.Fatal(err)
		}
	}
}

// hostPid returns the PID that a process of a container has on the machine.
func hostPid(inside int) int {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range all {
		b, _ := os.ReadFile(path)
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "NSpid:" && f[2] == strconv.Itoa(inside) {
				pid, _ := strconv.Atoi(f[1])
				return pid
			}
		}
	}
	return 0
}

// TestFaultsInImages repeats the fault tests with jobs in images, and with jobs that are root in them.
func TestFaultsInImages(t *testing.T) {
	runcPath(t)
	setInImage = true
	defer func() { setInImage, setRoot = false, false }()
	for name, test := range map[string]func(*testing.T){
		"Stop": TestStop, "StopIgnored": TestStopIgnored, "Kill": TestKill, "MaxRuntime": TestMaxRuntime,
		"OrphanDies": TestOrphanDies, "SupervisorKilled": TestSupervisorKilled, "SupervisorStopped": TestSupervisorStopped,
		"SupervisorTerminated": TestSupervisorTerminated, "Fenced": TestFenced, "RenewalKeepsAlive": TestRenewalKeepsAlive,
		"NeverSpawnsLate": TestNeverSpawnsLate, "FindAll": TestFindAll, "StraysAreKilled": TestStraysAreKilled, "TwoSeats": TestTwoSeats,
	} {
		setRoot = false
		t.Run(name, test)
		setRoot = true
		t.Run(name+" as root", test)
	}
}

func TestContainer(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh(`echo "user $(id -u):$(id -g)"; echo "pid $$"; echo "dir $PWD"; echo "own $OWN"; cat /run/ares/secrets/key; echo " env $TOKEN"
		echo changed > /tmp/x && cat /tmp/x; ls /; grep -E "Seccomp:|NoNewPrivs|CapEff|CapBnd" /proc/self/status; touch $ARES_PROGRESS_FILE && echo progress; exit 7`))
	spec.Env = append(spec.Env, "OWN=value")
	spec.Secrets = []Secret{{Env: "TOKEN", Value: "s3cret"}, {File: "key", Value: "k3y"}}
	p := w.start(spec)
	w.want(p, Exited, 7)
	log := w.log(spec.Key)
	for _, want := range []string{
		fmt.Sprintf("user %d:%d\n", tenantA.UID, tenantA.GID), "pid 1\n", "dir /\n", "own value\n", "k3y env s3cret\n", "changed\n", "progress\n",
		"NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "Seccomp:\t2\n",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the output has no %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "boot") {
		t.Errorf("the job sees the machine's root directory:\n%s", log)
	}
	// No secret is on the disk.
	_ = filepath.WalkDir(filepath.Join(w.dir, seatsDir), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, _ := os.ReadFile(path); strings.Contains(string(b), "s3cret") && !strings.Contains(path, "/log") {
				t.Errorf("%s contains a secret", path)
			}
		}
		return nil
	})
	// The layer is as before.
	if _, err := os.Stat(filepath.Join(spec.Container.Dir, "tools", seat.LayerTree, "tmp/x")); err == nil {
		t.Error("the job has changed the layer")
	}
}

// A job in an image whose command or directory is missing never starts, and the error names the image.
func TestContainerCommand(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"command": {func(s *Spec) { s.Argv = []string{"missing"} }, "command not found: missing, in the image"},
		"path":    {func(s *Spec) { s.Argv = []string{"/missing"} }, "command not found: /missing"},
		"dir":     {func(s *Spec) { s.Dir = "/missing" }, "directory /missing does not exist, in the image"},
		"data":    {func(s *Spec) { s.Container.Data = "/root" }, "checkpoint.path /root"},
	} {
		spec := w.inImage(sh("true"))
		spec.Key = key(name)
		c.change(&spec)
		if name == "data" {
			if err := os.Chmod("/root", 0o700); err != nil {
				t.Fatal(err)
			}
			spec.Container.Data = "/root/below"
		}
		res := w.wait(w.start(spec))
		if res.Outcome != SpawnError || !strings.Contains(res.Reason, strings.TrimSuffix(c.want, "/root")) {
			t.Errorf("%s: the result is %+v, want the reason %q", name, res, c.want)
		}
	}
}

// An image needs no shell, no /etc/passwd, and no directories for mounts.
func TestContainerWithoutAnything(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh(""))
	spec.Container.Layers = []string{"empty"}
	w.makeLayer("empty", func(dir string) {
		b, err := os.ReadFile(supervisorPath)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "program"), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	spec.Argv = []string{"/program", seat.Probe}
	w.want(w.start(spec), Exited, 0)
}

// Layers are stacked as overlayfs does it: a whiteout and an opaque directory hide what is below.
func TestContainerLayers(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh(`cat /dir/file; ls /dir /opaque; cat /gone`))
	spec.Container.Layers = []string{"tools", "low", "high"}
	write := func(dir, name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.makeLayer("low", func(dir string) {
		for _, name := range []string{"dir/file", "dir/low", "opaque/low", "gone"} {
			write(dir, name, "low")
		}
	})
	w.makeLayer("high", func(dir string) {
		write(dir, "dir/file", "high")
		write(dir, "opaque/high", "high")
		if err := syscall.Mknod(filepath.Join(dir, "gone"), syscall.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setxattr(filepath.Join(dir, "opaque"), "user.overlay.opaque", []byte("y"), 0); err != nil {
			t.Skip(err)
		}
	})
	w.wait(w.start(spec))
	want := "high/dir:\nfile\nlow\n\n/opaque:\nhigh\ncat: can't open '/gone': No such file or directory\n"
	if log := w.log(spec.Key); log != want {
		t.Errorf("the output is %q, want %q", log, want)
	}
}

// runtimeScript makes a runtime that does something before it calls the real one.
func (w *world) runtimeScript(before string) string {
	w.Helper()
	path := filepath.Join(w.dir, "runtime.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+before+"\nexec "+runcPath(w.T)+` "$@"`+"\n"), 0o755); err != nil {
		w.Fatal(err)
	}
	return path
}

// A bundle without cgroupsPath would take the job out of the seat's cgroup. Such a job must not start, and nothing of it may be left.
func TestContainerOutsideItsCgroup(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(w.open(), "started")
	spec := w.inImage(sh("touch " + mark))
	spec.Container.Runtime = w.runtimeScript(`sed -i 's/"cgroupsPath":"[^"]*",//' bundle/config.json`)
	p := w.start(spec)
	res := w.wait(p)
	if res.Outcome != Lost || !strings.Contains(res.Reason, "outside the job's cgroup") {
		t.Errorf("the result is %+v", res)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the job was started")
	}
}

// A runtime that fails, or writes nothing, is the node's fault, so the job may run elsewhere.
func TestContainerRuntimeFails(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string][2]string{
		"fails":   {`echo 'level=error msg="no luck"' >> runtime.log; exit 1`, "no luck"},
		"silent":  {`exit 0`, "has not written the PID"},
		"start":   {`case "$*" in *" start "*) exit 3;; esac`, "start"},
		"garbage": {`echo 1 > container.pid; exit 0`, "has not written the PID"},
	} {
		spec := w.inImage(sh("true"))
		spec.Key, spec.Container.Runtime = key(name), w.runtimeScript(c[0])
		if res := w.wait(w.start(spec)); res.Outcome != Lost || !strings.Contains(res.Reason, c[1]) {
			t.Errorf("%s: the result is %+v", name, res)
		}
	}
}

// A runtime that hangs, for example in a hook, ends when the lease does, and so does a container that was created but not started.
func TestContainerRuntimeHangs(t *testing.T) {
	w := newWorld(t)
	for name, before := range map[string]string{
		"create": `case "$*" in *" create "*) sleep 1000;; esac`,
		"start":  `case "$*" in *" start "*) sleep 1000;; esac`,
	} {
		spec := w.inImage(sh("true"))
		spec.Key, spec.LostAfter, spec.RenewedAt = key("hang-"+name), 2*time.Second, Now()
		spec.Container.Runtime = w.runtimeScript(before)
		if res := w.wait(w.start(spec)); res.Outcome != Fenced {
			t.Errorf("%s: the result is %+v", name, res)
		}
	}
}

// The first process of a PID namespace ignores SIGTERM if it has no handler. The job must end at once all the same.
func TestContainerDeafInit(t *testing.T) {
	w := newWorld(t)
	spec := w.inImage(sh("echo up; exec sleep 1000"))
	spec.Grace = time.Hour
	p := w.start(spec)
	w.untilUp(spec.Key)
	if err := p.Stop(w.ctx, "enough", -1); err != nil {
		t.Fatal(err)
	}
	if res := w.wait(p); res.Outcome != Stopped {
		t.Errorf("the result is %+v", res)
	}
}

// A job in an image exceeds its memory.
func TestContainerOutOfMemory(t *testing.T) {
	w := newWorld(t)
	if !w.limited("memory") {
		return
	}
	spec := w.inImage(sh("dd if=/dev/zero of=/dev/null bs=300M count=1"))
	spec.Limits.MemoryMB = 64
	if res := w.wait(w.start(spec)); res.Outcome != OutOfMemory {
		t.Errorf("the result is %+v", res)
	}
}

// With a file system of its own, what a job changes in its image is limited.
func TestContainerDisk(t *testing.T) {
	w := newWorld(t)
	if why := noDisk(); why != "" {
		t.Skip(why)
	}
	spec := w.inImage(sh("mkdir /tmp/d; dd if=/dev/zero of=/var/data/big bs=1M count=100; rm /var/data/big; echo $?"))
	spec.Container.Layers = []string{"tools", "var"}
	spec.Sandbox.Scratch, spec.Sandbox.DiskMB = w.open(), 32
	w.makeLayer("var", func(dir string) {
		if err := os.MkdirAll(filepath.Join(dir, "var/data"), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, "var/data"), 0o777); err != nil {
			t.Fatal(err)
		}
	})
	w.wait(w.start(spec))
	if log := w.log(spec.Key); !strings.Contains(log, "No space left") {
		t.Errorf("the output is %q", log)
	}
}
