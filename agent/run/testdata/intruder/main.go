// Command intruder is a job that tries operations that a job must not do. Each argument "verb=object" names one operation. For each it
// prints a line with "did" or the kernel's error. It only checks whether an operation is allowed, so it does no harm even as root.
package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	for _, arg := range os.Args[1:] {
		verb, object, _ := strings.Cut(arg, "=")
		said, err := attempts[verb](object)
		if err != nil {
			said = err.Error()
		}
		fmt.Printf("%s: %s\n", arg, said)
	}
}

var attempts = map[string]func(string) (string, error){
	"read": func(path string) (string, error) {
		_, err := os.ReadFile(path)
		return "did", err
	},
	"list": func(path string) (string, error) {
		_, err := os.ReadDir(path)
		return "did", err
	},
	"write": func(path string) (string, error) {
		_, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		return "did", err
	},
	"kill": func(pid string) (string, error) {
		return "did", syscall.Kill(number(pid), 0) // signal 0 needs the same permission as any other signal
	},
	"ptrace": func(pid string) (string, error) {
		const seize = 0x4206 // PTRACE_SEIZE does not stop the process
		_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(number(pid)), 0, 0, 0, 0)
		if errno != 0 {
			return "", errno
		}
		return "did", nil
	},
	"connect": func(name string) (string, error) { // to an abstract socket
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		return "did", syscall.Connect(fd, &syscall.SockaddrUnix{Name: name})
	},
	"ask": func(path string) (string, error) { // the agent, at the socket of the job's processes or of another job's
		if path == "" {
			path = os.Getenv("ARES_JOB_SOCKET")
		}
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
		}
		if err != nil {
			return "", err
		}
		n, err := syscall.Read(fd, make([]byte, 1))
		if n == 0 && err == nil {
			return "closed", nil
		}
		return "answered", err
	},
	"dial": func(address string) (string, error) { // a TCP port
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return "", err
		}
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		return "did", syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	},
	"open files": func(string) (string, error) { // besides standard input and output, and those of the Go runtime
		files, err := os.ReadDir("/proc/self/fd")
		for _, f := range files {
			to, gone := os.Readlink("/proc/self/fd/" + f.Name())
			if gone == nil && number(f.Name()) > 2 && !strings.HasPrefix(to, "anon_inode:") && !strings.Contains(path.Base(to), "cpu.") {
				return to, nil
			}
		}
		return "none", err
	},
	"setuid": func(uid string) (string, error) {
		return "did", syscall.Setuid(number(uid))
	},
	"setgroups": func(gid string) (string, error) {
		return "did", syscall.Setgroups([]int{number(gid)})
	},
	"run": func(path string) (string, error) { // a program with the set-user-ID bit
		out, err := exec.Command(path).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	},
	"mknod": func(path string) (string, error) {
		return "did", syscall.Mknod(path, syscall.S_IFCHR|0o666, 1<<8|3) // a second /dev/null
	},
	"mount": func(path string) (string, error) {
		return "did", syscall.Mount("none", path, "tmpfs", 0, "")
	},
	"umount": func(path string) (string, error) {
		return "did", syscall.Unmount(path, syscall.MNT_DETACH)
	},
	"nice": func(n string) (string, error) {
		return "did", syscall.Setpriority(syscall.PRIO_PROCESS, 0, number(n))
	},
	"bomb": func(n string) (string, error) { // how many of n children can exist at once
		children := 0
		for range number(n) {
			c := exec.Command("/bin/sleep", "1000")
			if c.Start() != nil {
				break
			}
			children++
		}
		return strconv.Itoa(children), nil
	},
	"eat": func(mb string) (string, error) { // allocates memory and touches all of it
		var held [][]byte
		for range number(mb) {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		return strconv.Itoa(len(held)), nil
	},
	"burn": func(ms string) (string, error) { // uses CPU time in two threads at once
		done := make(chan struct{})
		end := time.Now().Add(time.Duration(number(ms)) * time.Millisecond)
		for range 2 {
			go func() {
				for time.Now().Before(end) {
				}
				done <- struct{}{}
			}()
		}
		<-done
		<-done
		return "did", nil
	},
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
