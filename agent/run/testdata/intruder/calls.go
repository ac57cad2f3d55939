package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The arguments of each call are wrong, so the call does nothing even if it is allowed. A filter answers before the kernel looks at them.
var calls = map[string]uintptr{
	"acct": unix.SYS_ACCT, "add_key": unix.SYS_ADD_KEY, "bpf": unix.SYS_BPF, "clock_settime": unix.SYS_CLOCK_SETTIME,
	"clone3": unix.SYS_CLONE3, "delete_module": unix.SYS_DELETE_MODULE, "fanotify_init": unix.SYS_FANOTIFY_INIT,
	"finit_module": unix.SYS_FINIT_MODULE, "fsopen": unix.SYS_FSOPEN, "init_module": unix.SYS_INIT_MODULE,
	"io_uring_setup": unix.SYS_IO_URING_SETUP, "kexec_load": unix.SYS_KEXEC_LOAD, "keyctl": unix.SYS_KEYCTL,
	"mount": unix.SYS_MOUNT, "mount_setattr": unix.SYS_MOUNT_SETATTR, "move_mount": unix.SYS_MOVE_MOUNT,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "open_tree": unix.SYS_OPEN_TREE, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"pivot_root": unix.SYS_PIVOT_ROOT, "quotactl": unix.SYS_QUOTACTL, "reboot": unix.SYS_REBOOT, "request_key": unix.SYS_REQUEST_KEY,
	"setns": unix.SYS_SETNS, "settimeofday": unix.SYS_SETTIMEOFDAY, "swapoff": unix.SYS_SWAPOFF, "swapon": unix.SYS_SWAPON,
	"umount2": unix.SYS_UMOUNT2, "userfaultfd": unix.SYS_USERFAULTFD,
}

func init() {
	attempts["call"] = func(name string) (string, error) {
		bad := ^uintptr(0) // a bad pointer, descriptor and flag
		_, _, errno := syscall.RawSyscall6(calls[name], bad, bad, bad, bad, bad, bad)
		return did(errno)
	}
	attempts["unshare"] = func(flags string) (string, error) { // in a process of one thread, which a user namespace needs
		out, err := exec.Command("/usr/bin/unshare", strings.Fields(flags)...).CombinedOutput()
		return strings.TrimSpace("did " + string(out)), err
	}
	attempts["clone"] = func(flags string) (string, error) {
		runtime.LockOSThread()
		n, err := strconv.ParseUint(flags, 0, 32)
		if err != nil {
			return "", err
		}
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(n)|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid == 0 {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
		if errno == 0 {
			_, err = syscall.Wait4(int(pid), nil, 0, nil)
			return "did", err
		}
		return did(errno)
	}
	attempts["socket"] = func(family string) (string, error) {
		_, err := syscall.Socket(number(family), syscall.SOCK_STREAM, 0)
		return "did", err
	}
	attempts["personality"] = func(value string) (string, error) {
		n, err := strconv.ParseUint(value, 0, 32)
		if err != nil {
			return "", err
		}
		_, _, errno := syscall.RawSyscall(syscall.SYS_PERSONALITY, uintptr(n), 0, 0)
		return did(errno)
	}
	attempts["options"] = func(of string) (string, error) { // "request,options" of ptrace, for a process that does not exist
		request, options, _ := strings.Cut(of, ",")
		r, err1 := strconv.ParseUint(request, 0, 32)
		o, err2 := strconv.ParseUint(options, 0, 32)
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		const nobody = 1<<31 - 1
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, uintptr(r), nobody, 0, uintptr(o), 0, 0)
		return did(errno)
	}
	attempts["files"] = func(of string) (string, error) { // "directory,count": creates empty files
		dir, count, _ := strings.Cut(of, ",")
		for i := range number(count) {
			f, err := os.Create(fmt.Sprintf("%s/%d", dir, i))
			if err != nil {
				return "", err
			}
			_ = f.Close()
		}
		return "did", nil
	}
	attempts["sysv"] = func(string) (string, error) { // leaves a System V object of each kind
		_, _, shm := syscall.RawSyscall(syscall.SYS_SHMGET, 0, 1<<20, 0o600)
		_, _, msg := syscall.RawSyscall(syscall.SYS_MSGGET, 0, 0o600, 0)
		_, _, sem := syscall.RawSyscall(syscall.SYS_SEMGET, 0, 1, 0o600)
		if errno := max(shm, msg, sem); errno != 0 {
			return "", errno
		}
		return "did", nil
	}
	attempts["compute"] = compute
}

// The function `compute` does what a program with GPUs does: threads, child processes, shared memory, memory bound to a NUMA node, and a
// look at its own children.
func compute(string) (string, error) {
	done := make(chan struct{})
	for range 8 {
		go func() { runtime.LockOSThread(); done <- struct{}{} }()
	}
	for range 8 {
		<-done
	}
	fd, err := unix.MemfdCreate("compute", unix.MFD_CLOEXEC)
	if err != nil {
		return "memfd_create", err
	}
	if err = unix.Ftruncate(fd, 1<<20); err != nil {
		return "ftruncate", err
	}
	mem, err := unix.Mmap(fd, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return "mmap", err
	}
	mem[0] = 1
	_, _, errno := unix.RawSyscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&mem[0])), 1<<20, 0, 0, 0, 0) // MPOL_DEFAULT
	if errno != 0 && errno != unix.ENOSYS {
		return "mbind", errno
	}
	if err = os.WriteFile("/dev/shm/compute", mem, 0o600); err != nil {
		return "shm", err
	}
	if err = os.Remove("/dev/shm/compute"); err != nil {
		return "shm", err
	}
	c := exec.Command("/bin/sh", "-c", "(exit 7) & wait $!")
	if err = c.Run(); c.ProcessState.ExitCode() != 7 {
		return "child", fmt.Errorf("%w: %v", err, c.ProcessState)
	}
	traced := exec.Command("/bin/true")
	traced.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	runtime.LockOSThread()
	if err = traced.Start(); err != nil {
		return "ptrace", err
	}
	var ws syscall.WaitStatus
	if _, err = syscall.Wait4(traced.Process.Pid, &ws, 0, nil); err != nil || !ws.Stopped() {
		return "traced", fmt.Errorf("%v: %w", ws, err)
	}
	if err = syscall.PtraceSetOptions(traced.Process.Pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACEEXEC); err != nil {
		return "options", err
	}
	if err = syscall.PtraceDetach(traced.Process.Pid); err != nil {
		return "detach", err
	}
	return "did", unix.Unshare(unix.CLONE_FILES)
}

func did(errno syscall.Errno) (string, error) {
	if errno != 0 {
		return "", errno
	}
	return "did", nil
}
