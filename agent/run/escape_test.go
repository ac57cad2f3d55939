//go:build linux

package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An escape is a published way out of a container.
type escape struct {
	name    string // its CVE, or the name under which it was published
	did     string // what it did
	attempt string // of the intruder program, which prints "got" if the way is open
	// The setting isolation.user_namespaces opens this part of the kernel on purpose. Nothing outside may be reached with it all the same.
	opened bool
	// outside changes how the way is tried on the machine itself, as root, where it must be open: otherwise the test would prove nothing.
	outside func(c *exec.Cmd)
}

// escapes returns the ways. The secret is a file of root, the listener listens on a socket that every user may connect to, also on the abstract
// one of this name.
func (w *world) escapes(secret, socket, abstract string) []escape {
	w.Helper()
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, secret, 0)
	if err != nil {
		w.Fatal(err)
	}
	root, err := os.Open("/")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = root.Close() })
	alone := func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	}
	return []escape{
		{"CVE-2019-5736", "A container wrote to the program of runc, through /proc, while it ran.", "programs=/usr/bin/busybox", false, nil},
		{"CVE-2024-21626", "A container used a directory of the machine that runc had left open.", "leaks=" + secret, false, func(c *exec.Cmd) { c.ExtraFiles = []*os.File{root} }},
		{"Shocker", "A container with a file of the machine opened others by their handles.", fmt.Sprintf("handle=%d,%s", h.Type(), hex.EncodeToString(h.Bytes())), false, nil},
		{"CVE-2022-0492", "A container mounted cgroups of version 1, and wrote the program that the kernel runs as root when a cgroup is empty.", "agents=", false, alone},
		{"core_pattern", "A container wrote the program that the kernel runs as root when a process crashes.", "proc=sys/kernel/core_pattern", false, alone},
		{"CVE-2023-28642", "An image with a link at /proc, as with CVE-2019-16884, CVE-2019-19921 and CVE-2023-27561, led the protections of /proc elsewhere.", "writable=/proc/sys", false, alone},
		{"CVE-2025-31133", "An image with a link at /dev/null, as with CVE-2025-52565 and /dev/console, led the protections of /proc elsewhere.", "unmasked=/proc/interrupts", false, alone},
		{"CVE-2020-15257", "A container with the machine's network commanded containerd through an abstract socket.", "abstract=" + abstract, false, nil},
		{"docker.sock", "A container commanded Docker through its socket.", "unix=" + socket, false, nil},
		{"CVE-2020-14386", "Raw packets, as with CVE-2016-8655 and CVE-2017-7308, overwrote memory of the kernel.", "packet=", true, nil},
		{"CVE-2022-0185", "The option of a new file system overwrote memory of the kernel.", "fsconfig=", true, nil},
		{"CVE-2021-3493", "A file with capabilities was made in an overlay, as with CVE-2015-1328 and CVE-2023-0386.", "overlay=", true, alone},
		{"CVE-2021-3490", "A program that was loaded into the kernel, as with CVE-2017-16995, read and wrote its memory.", "program=", false, nil},
		{"CVE-2013-2094", "A performance counter with a large number wrote to memory of the kernel.", "perf=", false, nil},
		{"CVE-2022-29582", "Requests in a ring (io_uring), as with CVE-2021-41073 and CVE-2023-2598, used memory of the kernel after it was freed.", "uring=", false, nil},
		{"CVE-2016-0728", "Joining a keyring again and again used memory of the kernel after it was freed.", "keyring=", false, nil},
		{"nsenter", "A container entered the namespaces of a process of the machine.", "spaces=", false, alone},
		{"device node", "A container made a device file for the machine's disk.", "disk=2048", false, nil},
		{"CVE-2017-5226", "A sandboxed program typed into the terminal from which it was started.", "type=", false, w.onTerminal},
		{"chroot", "A process left its root directory by changing it again.", "chroot=" + secret, false, w.inDirectory},
		{"CVE-2022-24769", "Containers had inheritable capabilities, as with CVE-2022-29162 in commands beside them.", "caps=", true, nil},
	}
}

// ofRoot lists what root of an image gets: the capabilities of its user namespace, of which none is inheritable.
var ofRoot = map[string]string{"CVE-2022-24769": "got CapPrm:\t00000000800001fb"}

// onTerminal lets a program run on a terminal.
func (w *world) onTerminal(c *exec.Cmd) {
	var theirs []int
	master, err := openTerminal(screen, tenantA, &theirs)
	if err != nil {
		w.Fatal(err)
	}
	c.Stdin = os.NewFile(uintptr(theirs[0]), "terminal")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.Cleanup(func() {
		closeAll(theirs[1:]...)
		_ = c.Stdin.(*os.File).Close()
		_ = master.Close()
	})
}

// inDirectory lets a program run with another root directory.
func (w *world) inDirectory(c *exec.Cmd) {
	dir := w.open()
	w.copyProgram(dir, intruderPath)
	w.makeDir(filepath.Join(dir, "tmp"), 0o777)
	c.Env = []string{"TMPDIR=/tmp"}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
}

// hostileImage is a job in an image whose links lead the runtime, and the protections that it sets up, elsewhere.
func (w *world) hostileImage(s *Spec) {
	w.Helper()
	scratch, argv := s.Sandbox.Scratch, s.Argv
	*s = w.inImage(*s)
	s.Argv, s.Container.Data, s.Sandbox.ShmMB, s.Sandbox.Scratch = argv, "", 16, scratch
	w.makeLayer("hostile", func(dir string) {
		for _, name := range []string{"fake", "fake/self", "fake/self/attr", "fake/sys", "dev"} {
			w.makeDir(filepath.Join(dir, name), 0o777)
		}
		w.put(filepath.Join(dir, "fake/self/attr/exec"), "")
		w.link("/fake", filepath.Join(dir, "proc"))
		w.link("/fake", filepath.Join(dir, "sys"))
		for _, name := range []string{"null", "console", "ptmx", "pts", "shm", "full"} {
			w.link("/proc/sys/kernel/core_pattern", filepath.Join(dir, "dev", name))
		}
	})
	s.Container.Layers = append(s.Container.Layers, "hostile")
}

// sums returns the content of files of the machine that escapes change.
func (w *world) sums(files ...string) (all []string) {
	w.Helper()
	agents, _ := filepath.Glob("/sys/fs/cgroup/*/release_agent")
	for _, file := range append(files, append(agents, "/proc/sys/kernel/core_pattern")...) {
		b, err := os.ReadFile(file)
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %x", file, sha256.Sum256(b)))
	}
	return all
}

// TestEscapes tries published ways out of containers from a job in an image, from a command beside it, as root of new namespaces of a job
// in an image, with isolation.user_namespaces, and from all three as root in the image. Each way is open on the machine itself.
func TestEscapes(t *testing.T) {
	runcPath(t)
	w := newWorld(t)
	secret, at := filepath.Join(w.dir, "secret"), filepath.Join(w.open(), "docker.sock")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	abstract := fmt.Sprintf("containerd-shim-%d.sock", os.Getpid())
	for _, name := range []string{at, "@" + abstract} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	if err := os.Chmod(at, 0o666); err != nil { //nolint:gosec // as open as it can be
		t.Fatal(err)
	}
	ways := w.escapes(secret, at, abstract)
	before := w.sums(secret, runcPath(t), supervisorPath)
	for _, e := range ways {
		c := exec.Command(intruderPath, e.attempt)
		if e.outside != nil {
			e.outside(c)
		}
		if c.SysProcAttr != nil && c.SysProcAttr.Chroot != "" {
			c.Path = intruderPath
		}
		out, err := c.CombinedOutput()
		if answer := answers(string(out))[e.attempt]; !strings.HasPrefix(answer, "got ") {
			t.Errorf("%s: on the machine itself, the attempt %q ended with %q (%v)", e.name, e.attempt, out, err)
		}
	}
	var attempts []string
	for _, e := range ways {
		attempts = append(attempts, e.attempt)
	}
	for place, said := range map[string]map[string]string{
		"image":             w.intrude(func(s *Spec) { w.hostileImage(s); s.Rank = 1 }, attempts...),
		"session":           w.intrudeBesideImage(2, false, attempts),
		"root":              w.intrude(func(s *Spec) { w.hostileImage(s); s.Rank, s.Container.Root = 4, true }, attempts...),
		"session as root":   w.intrudeBesideImage(5, true, attempts),
		"root's namespaces": w.intrude(func(s *Spec) { w.hostileImage(s); s.Rank, s.Container.Root, s.Sandbox.UserNamespaces = 6, true, true }, "asroot="+strings.Join(attempts, "\x01")),
		"namespaces":        w.intrude(func(s *Spec) { w.hostileImage(s); s.Rank, s.Sandbox.UserNamespaces = 3, true }, "asroot="+strings.Join(attempts, "\x01")),
	} {
		for _, e := range ways {
			answer := said[e.attempt]
			t.Logf("%s, %s: %s", e.name, place, answer)
			if answer == "" {
				t.Errorf("%s was not tried (%s): %v", e.name, place, said)
			}
			if strings.HasPrefix(answer, "got ") && !(answer == ofRoot[e.name] && strings.HasSuffix(place, "root")) && !(e.opened && strings.HasSuffix(place, "namespaces")) {
				t.Errorf("%s works (%s): %s\n%s", e.name, place, answer, e.did)
			}
		}
	}
	if after := w.sums(secret, runcPath(t), supervisorPath); !slices.Equal(before, after) {
		t.Errorf("files of the machine were changed:\n%q\n%q", before, after)
	}
}

// intrudeBesideImage is like the method `intrude`, for a command beside a job in an image.
func (w *world) intrudeBesideImage(rank int, root bool, attempts []string) map[string]string {
	w.Helper()
	spec := apart(sh("sleep 1000"))
	spec.Key = key("intruder")
	spec.Sandbox.Scratch = w.withIntruder()
	w.hostileImage(&spec)
	spec.Rank, spec.Container.Root = rank, root
	p := w.start(spec)
	out, _, _, _ := w.output(w.exec(p, Command{Argv: append([]string{SandboxWork + "/intruder"}, attempts...)}), "")
	if err := p.Kill(w.ctx); err != nil {
		w.Error(err)
	}
	w.wait(p)
	return answers(out)
}

// CVE-2024-21626: a working directory in /proc led to a directory of the machine that the runtime had left open.
func TestEscapeByDirectory(t *testing.T) {
	w := newWorld(t)
	runcPath(t)
	secret := filepath.Join(w.open(), "secret")
	w.put(secret, "secret")
	w.makeLayer("links", func(at string) {
		for i := range 8 {
			w.link(fmt.Sprintf("/proc/self/fd/%d", i), filepath.Join(at, fmt.Sprint("fd", i)))
		}
	})
	for n := range 8 {
		for _, dir := range []string{fmt.Sprintf("/proc/self/fd/%d", n), fmt.Sprintf("/fd%d", n)} {
			spec := w.inImage(sh("cat " + strings.Repeat("../", 20) + secret))
			spec.Key, spec.Dir, spec.Container.Data = key(fmt.Sprint("directory-", n, "-", len(dir))), dir, ""
			spec.Container.Layers = append(spec.Container.Layers, "links")
			if res := w.wait(w.start(spec)); res.Outcome != SpawnError || !strings.Contains(res.Reason, "working_dir") {
				t.Errorf("%s: %+v: %s", dir, res, w.log(spec.Key))
			}
		}
	}
}

// CVE-2019-5736: a container whose program was /proc/self/exe made the runtime start itself in the container, where others wrote to it.
func TestEscapeByProgram(t *testing.T) {
	w := newWorld(t)
	before := w.sums(runcPath(t), supervisorPath)
	write := "for p in 1 self; do cat /bin/sh > /proc/$p/exe && echo wrote; done; echo tried"
	w.makeLayer("exe", func(dir string) {
		w.put(filepath.Join(dir, "script"), "#!/proc/self/exe\n")
		if err := os.Chmod(filepath.Join(dir, "script"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.link("/proc/self/exe", filepath.Join(dir, "link"))
	})
	for i, program := range []string{"/proc/self/exe", "/script", "/link"} {
		spec := w.inImage(sh(""))
		spec.Key, spec.Argv, spec.Container.Data = key(fmt.Sprint("exe-", i)), []string{program, "inside"}, ""
		spec.Container.Layers = append(spec.Container.Layers, "exe")
		if res := w.wait(w.start(spec)); res.ExitCode == 0 || res.Outcome == Lost {
			t.Errorf("%s: %+v", program, res)
		}
	}
	spec := w.inImage(sh("echo up; exec sleep 1000"))
	spec.Container.Data = ""
	spec.Container.Layers = append(spec.Container.Layers, "exe")
	p := w.start(spec)
	w.untilUp(spec.Key)
	for _, program := range []string{"/proc/self/exe", "/script", "/link"} {
		if x, err := p.Exec(w.ctx, Command{Argv: []string{program, "inside"}}, screen); err == nil {
			_, _, _, _ = w.output(x, "")
		}
		if out, _, _, _ := w.output(w.exec(p, shell(write)), ""); out != "tried\n" {
			t.Errorf("%s: %q", program, out)
		}
	}
	if after := w.sums(runcPath(t), supervisorPath); !slices.Equal(before, after) {
		t.Error("a program of the machine was changed")
	}
}

// CVE-2025-23266: a hook of the runtime for the job's devices, which runs as root, got the image's variables, and LD_PRELOAD named a library
// of the image.
func TestEscapeByHookEnvironment(t *testing.T) {
	w := newWorld(t)
	runcPath(t)
	for _, kind := range []string{"createRuntime", "createContainer"} {
		seen := filepath.Join(w.open(), "seen")
		spec := w.inImage(sh("env"))
		spec.Key = key("hook-" + strings.ToLower(kind))
		spec.Env = append(spec.Env, "LD_PRELOAD=./evil.so", "BASH_ENV=./evil.sh", "PATH=/evil:/bin:/usr/bin")
		spec.Container.Devices = []string{"test.dev/gpu=0"}
		spec.Container.DeviceSpecs = writeSpecs(t, deviceSpec("0", `"hooks": [{"hookName": "`+kind+`", "path": "/bin/sh", "args": ["sh", "-c", "env > `+seen+`; echo ran >> `+seen+`"]}]`))
		w.want(w.start(spec), Exited, 0)
		if log := w.log(spec.Key); !strings.Contains(log, "evil.so") {
			t.Errorf("%s: the job itself does not have its variables: %s", kind, log)
		}
		if b, err := os.ReadFile(seen); err != nil || !strings.Contains(string(b), "ran\n") || strings.Contains(string(b), "evil") {
			t.Errorf("%s: the hook got %q (%v)", kind, b, err)
		}
	}
}

// CVE-2024-0132 and CVE-2025-23359: the libraries of a GPU were mounted through links of the image, which led to the machine's files.
func TestEscapeByLibraries(t *testing.T) {
	w := newWorld(t)
	runcPath(t)
	library, outside := filepath.Join(w.open(), "library"), w.open()
	w.put(library, "driver\n")
	w.put(filepath.Join(outside, "secret"), "secret\n")
	w.makeLayer("libraries", func(dir string) {
		w.makeDir(filepath.Join(dir, "opt"), 0o755)
		w.link(strings.Repeat("../", 20)+outside, filepath.Join(dir, "opt/driver"))
		w.link(outside, filepath.Join(dir, "opt/other"))
	})
	for i, target := range []string{"/opt/driver/new", "/opt/other/new", "/opt/driver/secret", "/opt/driver"} {
		spec := w.inImage(sh("cat /opt/driver/secret /opt/other/secret; ls /opt/driver/"))
		spec.Key, spec.Container.Data = key(fmt.Sprint("library-", i)), ""
		spec.Container.Layers = append(spec.Container.Layers, "libraries")
		spec.Container.Devices = []string{"test.dev/gpu=0"}
		spec.Container.DeviceSpecs = writeSpecs(t, deviceSpec("0", `"mounts": [{"hostPath": "`+library+`", "containerPath": "`+target+`", "options": ["bind", "ro"]}]`))
		res := w.wait(w.start(spec))
		if log := w.log(spec.Key); strings.Contains(log, "secret\n/") || strings.HasPrefix(log, "secret\n") {
			t.Errorf("%s: %+v: %s", target, res, log)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
			t.Errorf("%s: the machine's directory has %v (%v)", target, list, err)
		}
		if b, _ := os.ReadFile(filepath.Join(outside, "secret")); string(b) != "secret\n" {
			t.Errorf("%s: the machine's file is %q", target, b)
		}
	}
}

// CVE-2019-14271: docker cp started a program of its own in the container, which loaded the image's libraries as root of the machine. A program
// of an image only ever runs in the job, as the job's user.
func TestEscapeByCopy(t *testing.T) {
	w := newWorld(t)
	mark := filepath.Join(w.open(), "mark")
	spec := w.inImage(sh("echo up; exec sleep 1000"))
	spec.Container.Data, spec.Sandbox.ShmMB = "", 16 // it does not see the directory
	spec.Container.Layers = append(spec.Container.Layers, "tar")
	w.makeLayer("tar", func(dir string) {
		w.makeDir(filepath.Join(dir, "usr"), 0o755)
		w.makeDir(filepath.Join(dir, "usr/bin"), 0o755)
		w.put(filepath.Join(dir, "usr/bin/tar"), "#!/bin/sh\nid -u; grep -E '^(CapEff|Seccomp):' /proc/self/status; echo x > "+mark+"\n")
		if err := os.Chmod(filepath.Join(dir, "usr/bin/tar"), 0o755); err != nil {
			t.Fatal(err)
		}
	})
	p := w.start(spec)
	w.untilUp(spec.Key)
	out, _, _, _ := w.output(w.exec(p, Command{Argv: []string{"tar", "-cf", "-", "file"}}), "")
	want := fmt.Sprintf("%d\nCapEff:\t0000000000000000\nSeccomp:\t2\n", tenantA.UID)
	if setRoot {
		want = "0\nCapEff:\t00000000800001fb\nSeccomp:\t2\n" // of its user namespace
	}
	if out != want {
		t.Errorf("the program says %q, want %q", out, want)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it has written to the machine")
	}
}
