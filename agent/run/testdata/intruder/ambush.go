package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() {
	attempts["ambush"] = ambush
	attempts["hinder"] = hinder
}

// The function `ambush` attacks each new process that it sees, until /tmp/enough exists.
func ambush(string) (string, error) {
	runtime.LockOSThread() // a tracer is a thread
	fmt.Println("waiting")
	seen := map[int]bool{os.Getpid(): true}
	count := 0
	for !exists("/tmp/enough") {
		for _, pid := range others() {
			if !seen[pid] {
				count++
			}
			seen[pid] = true
			attack(pid)
		}
	}
	fmt.Println("processes seen:", count)
	return "did", nil
}

// The function `attack` prints a line that begins with "got" for each success.
func attack(pid int) {
	dir := "/proc/" + strconv.Itoa(pid)
	if fd, err := syscall.Open(dir+"/exe", syscall.O_WRONLY, 0); err == nil {
		fmt.Println("got a program to write to", dir)
		_ = syscall.Close(fd)
	}
	if exe, err := os.Readlink(dir + "/exe"); err == nil && strings.Contains(exe, "supervisor") {
		fmt.Println("got", exe)
	}
	for _, place := range []string{"/cwd", "/root"} {
		if exists(dir + place + "/etc/machine-id") {
			fmt.Println("got the machine's files through", place)
		}
	}
	const seize, detach = 0x4206, 17
	if _, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0); errno == 0 {
		if s := readStatus(dir); strings.Contains(s, "Seccomp:\t0") || strings.Contains(s, "NoNewPrivs:\t0") {
			fmt.Println("got to trace a process without the filter:", s)
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		var ws syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &ws, syscall.WALL, nil)
		_, _, _ = syscall.Syscall6(syscall.SYS_PTRACE, detach, uintptr(pid), 0, 0, 0, 0)
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// The function `hinder` stops each process that it sees, as early as it can.
func hinder(string) (string, error) {
	fmt.Println("waiting")
	for said := false; ; {
		for _, pid := range others() {
			if syscall.Kill(pid, syscall.SIGSTOP) == nil && !said {
				said = true
				fmt.Println("hindered")
			}
		}
		time.Sleep(50 * time.Microsecond)
	}
}

func others() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readStatus(dir string) string {
	b, _ := os.ReadFile(dir + "/status")
	return string(b)
}
