package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each of these attempts is a published way out of a container. It prints "got" and what it has reached, or why it could not. It stops before
// it does harm.
func init() {
	for name, attempt := range map[string]func(string) (string, error){
		"programs": programs, "leaks": leaks, "handle": handle, "agents": agents, "proc": proc, "writable": writable, "unmasked": unmasked,
		"unix": unixSocket, "abstract": func(name string) (string, error) { return unixSocket("@" + name) }, "packet": packet,
		"fsconfig": fsconfig, "program": loadProgram, "perf": perf, "uring": uring, "keyring": keyring, "spaces": spaces,
		"disk": disk, "type": typeAhead, "chroot": breakChroot, "caps": caps, "overlay": overlay, "asroot": asRoot,
	} {
		attempts[name] = attempt
	}
}

const got = "got "

var errNothing = errors.New("nothing to be had")

// The function `asRoot` starts this program again as root of new namespaces, which needs the right to make a user namespace.
func asRoot(arguments string) (string, error) {
	c := exec.Command("/proc/self/exe", strings.Split(arguments, "\x01")...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	return "ran", c.Run()
}

// The function `programs` looks for a running program that it may write to, as CVE-2019-5736 did with runc. A program that runs is busy, which
// only those are told who may write to it.
func programs(own string) (string, error) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range append(links, "/proc/self/exe") {
		if to, _ := os.Readlink(link); own != "" && to == own {
			continue
		}
		fd, err := syscall.Open(link, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err == nil {
			_ = syscall.Close(fd)
		}
		if err == nil || errors.Is(err, syscall.ETXTBSY) {
			to, _ := os.Readlink(link)
			return got + to, nil
		}
		// The second way of CVE-2019-5736: the file is opened for reading first.
		if fd, err = syscall.Open(link, unix.O_PATH|syscall.O_CLOEXEC, 0); err != nil {
			continue
		}
		again, err := syscall.Open("/proc/self/fd/"+strconv.Itoa(fd), syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		_ = syscall.Close(fd)
		if err == nil {
			_ = syscall.Close(again)
		}
		if err == nil || errors.Is(err, syscall.ETXTBSY) {
			return got + link, nil
		}
	}
	return "", errNothing
}

// The function `leaks` reads a file of the machine through every open file, working directory and root directory of every process, as
// CVE-2024-21626 and CVE-2016-9962 did.
func leaks(secret string) (string, error) {
	up := strings.Repeat("../", 20) + strings.TrimPrefix(secret, "/")
	for _, pattern := range []string{"/proc/[0-9]*/fd/*", "/proc/[0-9]*/cwd", "/proc/[0-9]*/root", "/proc/self/fd/*"} {
		places, _ := filepath.Glob(pattern)
		for _, place := range places {
			for _, path := range []string{place + "/" + up, place + secret} {
				if _, err := os.ReadFile(path); err == nil {
					return got + place, nil
				}
			}
		}
	}
	return "", errNothing
}

// The function `handle` opens a file by its handle, "TYPE,HEX", in each file system that it can find, as Shocker did.
func handle(of string) (string, error) {
	kind, text, _ := strings.Cut(of, ",")
	b, err := hex.DecodeString(text)
	if err != nil {
		return "", err
	}
	h := unix.NewFileHandle(int32(number(kind)), b)
	last := error(errNothing)
	for _, path := range []string{"/", "/etc/hosts", "/etc/resolv.conf", "/run/ares/work", "/tmp", "/dev/shm"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		file, err := unix.OpenByHandleAt(fd, h, unix.O_RDONLY)
		_ = unix.Close(fd)
		if err == nil {
			_ = unix.Close(file)
			return got + "the file in the file system of " + path, nil
		}
		last = err
	}
	return "", last
}

// The function `mountAt` mounts a file system at a new directory. The mount ends with this process, or with the call of the result.
func mountAt(kind, options string) (dir string, end func(), err error) {
	if dir, err = os.MkdirTemp("", "intruder-*"); err != nil {
		return "", nil, err
	}
	if err = unix.Mount(kind, dir, kind, 0, options); err != nil {
		_ = os.Remove(dir)
		return "", nil, err
	}
	return dir, func() { _ = unix.Unmount(dir, unix.MNT_DETACH); _ = os.Remove(dir) }, nil
}

// The function `opens` opens a file for writing, and writes nothing.
func opens(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_ = f.Close()
	}
	return err
}

// The function `agents` mounts each cgroup file system of version 1, and opens the file with the program that the kernel runs as root when a
// cgroup is empty: CVE-2022-0492.
func agents(string) (string, error) {
	last := error(errNothing)
	for _, name := range []string{"memory", "cpu", "devices", "pids", "rdma", "misc", "none,name=intruder"} {
		dir, end, err := mountAt("cgroup", name)
		if err == nil {
			err = opens(dir + "/release_agent")
			end()
		}
		if err == nil {
			return got + name, nil
		}
		last = err
	}
	return "", last
}

// The function `proc` opens a file of /proc for writing, here and in a new mount of /proc.
func proc(name string) (string, error) {
	if opens("/proc/"+name) == nil {
		return got + "/proc/" + name, nil
	}
	dir, end, err := mountAt("proc", "")
	if err != nil {
		return "", err
	}
	defer end()
	if err = opens(dir + "/" + name); err == nil {
		return got + "it in a new /proc", nil
	}
	return "", err
}

// The function `writable` reports whether a path is in a mount that is not read-only, or can be made so.
func writable(path string) (string, error) {
	_ = unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT, "")
	_ = unix.Unmount(path, unix.MNT_DETACH)
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	if st.Flags&unix.ST_RDONLY == 0 {
		return got + "a mount for writing at " + path, nil
	}
	return "read-only", nil
}

// The function `unmasked` reads a file of /proc that is masked.
func unmasked(path string) (string, error) {
	_ = unix.Unmount(path, unix.MNT_DETACH)
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return got + path, nil
	}
	return "empty", nil
}

func unixSocket(name string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return got + name, unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

// The function `packet` opens a socket for raw packets, which CVE-2016-8655, CVE-2017-7308 and CVE-2020-14386 needed.
func packet(string) (string, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return got + "packets", err
}

// The function `fsconfig` reaches the code of CVE-2022-0185.
func fsconfig(string) (string, error) {
	fd, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return got + "a new file system", nil
}

// The function `loadProgram` loads a program into the kernel, which CVE-2017-16995 and CVE-2021-3490 needed: `return 0` for a socket.
func loadProgram(string) (string, error) {
	type instruction struct {
		code, registers uint8
		offset          int16
		constant        int32
	}
	license, text := []byte("GPL\x00"), []instruction{{code: 0xb7}, {code: 0x95}}
	load := struct {
		kind, count      uint32
		program, license uint64
		rest             [10]uint64
	}{kind: unix.BPF_PROG_TYPE_SOCKET_FILTER, count: 2, program: uint64(uintptr(unsafe.Pointer(&text[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0])))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&load)), unsafe.Sizeof(load))
	runtime.KeepAlive(text)
	runtime.KeepAlive(license)
	return descriptor(fd, errno)
}

func descriptor(fd uintptr, errno syscall.Errno) (string, error) {
	if errno != 0 {
		return "", errno
	}
	_ = unix.Close(int(fd))
	return got + "it", nil
}

// The function `perf` counts an event of software, which CVE-2013-2094 needed.
func perf(string) (string, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return "", err
	}
	return descriptor(uintptr(fd), 0)
}

// The function `uring` makes a ring, which CVE-2021-41073, CVE-2022-29582 and CVE-2023-2598 needed.
func uring(string) (string, error) {
	var parameters [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 8, uintptr(unsafe.Pointer(&parameters)), 0)
	return descriptor(fd, errno)
}

// The function `keyring` joins a keyring, which CVE-2016-0728 did until a counter overflowed.
func keyring(string) (string, error) {
	runtime.LockOSThread()
	_, err := unix.KeyctlJoinSessionKeyring("intruder")
	return got + "a keyring", err
}

// The function `spaces` enters namespaces of other processes that are not its own.
func spaces(string) (string, error) {
	last := error(errNothing)
	for _, kind := range []string{"net", "ipc", "uts", "mnt", "cgroup"} {
		own, _ := os.Readlink("/proc/self/ns/" + kind)
		links, _ := filepath.Glob("/proc/[0-9]*/ns/" + kind)
		for _, link := range links {
			if to, err := os.Readlink(link); err != nil || to == own {
				continue
			}
			fd, err := unix.Open(link, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				done := make(chan error)
				go func() {
					runtime.LockOSThread() // the thread ends here
					done <- unix.Setns(fd, 0)
				}()
				err = <-done
				_ = unix.Close(fd)
			}
			if err == nil {
				return got + link, nil
			}
			last = err
		}
	}
	return "", last
}

// The function `disk` makes a file for the machine's first disk.
func disk(device string) (string, error) {
	path := filepath.Join(os.TempDir(), "intruder-disk")
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, number(device)); err != nil {
		return "", err
	}
	_ = os.Remove(path)
	return got + "a disk", nil
}

// The function `typeAhead` types into the terminal from which the user looks at it: CVE-2017-5226.
func typeAhead(string) (string, error) {
	files := []uintptr{0, 1, 2}
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		files = append(files, f.Fd())
	}
	last := error(errNothing)
	letter := byte('#')
	for _, fd := range files {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCSTI, uintptr(unsafe.Pointer(&letter)))
		if errno == 0 {
			return got + "a terminal", nil
		}
		last = errno
	}
	return "", last
}

// The function `breakChroot` leaves a changed root directory by changing it again, and reads a file of the machine.
func breakChroot(secret string) (string, error) {
	dir, err := os.MkdirTemp("", "intruder-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(dir)
	above, err := os.Open("/")
	if err != nil {
		return "", err
	}
	defer above.Close()
	if err = unix.Chroot(dir); err != nil {
		return "", err
	}
	if err = above.Chdir(); err != nil {
		return "", err
	}
	f, err := os.Open(strings.Repeat("../", 20) + strings.TrimPrefix(secret, "/"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = io.ReadAll(f)
	return got + "the machine's root directory", err
}

// The function `caps` looks for any capability. Those that are inheritable were CVE-2022-24769 and CVE-2022-29162.
func caps(string) (string, error) {
	last := error(errNothing)
	for line := range strings.Lines(readStatus("/proc/self")) {
		name, value, _ := strings.Cut(line, ":")
		if bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); strings.HasPrefix(name, "Cap") {
			if err != nil || bits != 0 {
				return got + strings.TrimSpace(line), nil
			}
			last = nil
		}
	}
	return "none", last
}

// The function `overlay` mounts an overlay, which CVE-2015-1328, CVE-2021-3493 and CVE-2023-0386 needed.
func overlay(string) (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "intruder-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"low", "up", "work", "all"} {
		if err = os.Mkdir(dir+"/"+name, 0o755); err != nil {
			return "", err
		}
	}
	if err = unix.Mount("overlay", dir+"/all", "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/low,upperdir=%[1]s/up,workdir=%[1]s/work", dir)); err != nil {
		return "", err
	}
	return got + "an overlay", unix.Unmount(dir+"/all", unix.MNT_DETACH)
}
