//go:build linux

package seat

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// These functions are for machines without a writable cgroup2 file system. Searching /proc is less reliable than a cgroup, because a
// process can fork faster than /proc is read. The search also misses a process that has cleared its environment and whose parents
// have died.

// MarkEnv is the name of the environment variable that holds Order.Mark.
const MarkEnv = "ARES_SEAT"

// KillDescendants sends SIGKILL to all descendants of root and returns how many were alive. The supervisor is a
// subreaper, so orphaned processes of its job become its children.
func KillDescendants(root int) (int, error) {
	pids, err := processes()
	if err != nil {
		return 0, err
	}
	parent := make(map[int]int, len(pids))
	for _, pid := range pids {
		if ppid, state, ok := stat(pid); ok && state != 'Z' && state != 'X' {
			parent[pid] = ppid
		} else if ok {
			parent[pid] = -ppid // a zombie is not counted, but its entry leads to its parent
		}
	}
	n := 0
	for pid, up := range parent {
		if up > 0 && descends(parent, pid, root) {
			n++
			_ = syscall.Kill(pid, syscall.SIGKILL) // if it is already gone, the next sweep shows it
		}
	}
	return n, nil
}

func descends(parent map[int]int, pid, root int) bool {
	for range len(parent) { // bounded, because PIDs may be reused while /proc is read
		up := parent[pid]
		if up < 0 {
			up = -up
		}
		if up == root {
			return true
		}
		if up <= 1 {
			return false
		}
		pid = up
	}
	return false
}

// KillMarked sends SIGKILL to all processes whose environment contains the mark, and returns how many were alive. KillMarked opens a
// pidfd before it reads the environment, and kills through that pidfd. It therefore cannot kill a process that reuses the PID. Processes of
// other users than `user` do not count: a job of another tenant can put any mark into its environment, and could delay the release of
// this seat for as long as it likes. If the seat's user is unknown, all users count.
func KillMarked(mark string, user *User) (int, error) {
	pids, err := processes()
	if err != nil {
		return 0, err
	}
	n := 0
	if unclear := killMarked(pids, mark, user, &n); len(unclear) > 0 {
		time.Sleep(execTime)
		killMarked(unclear, mark, user, &n)
	}
	return n, nil
}

// execTime is longer than the time for which the environment of a process is empty while the process executes another program.
const execTime = 10 * time.Millisecond

// killMarked looks at the given processes once, adds to n how many it killed, and returns those without an environment.
// A process has none for a moment in the middle of execve, so one look could miss it.
func killMarked(pids []int, mark string, user *User, n *int) (unclear []int) {
	want := []byte(MarkEnv + "=" + mark)
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		fd, err := pidfdOpen(pid)
		if err != nil {
			continue
		}
		env, err := ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		switch {
		case err != nil:
		case len(env) == 0:
			if _, err = os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil { // neither a zombie nor the kernel's own
				unclear = append(unclear, pid)
			}
		case hasEntry(env, want) && (user == nil || runsAs(pid, user.UID)):
			*n++
			_ = pidfdSignal(fd, syscall.SIGKILL)
		}
		_ = syscall.Close(fd)
	}
	return unclear
}

func hasEntry(env, want []byte) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}

// runsAs reports whether a process has the given real user ID. The owner of its directory in /proc does not say so: the directory of a process
// that cannot be debugged belongs to root. A process that is gone, or whose user cannot be read, counts as the user's.
func runsAs(pid int, uid uint32) bool {
	b, err := ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return true
	}
	for line := range bytes.Lines(b) {
		if ids, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			f := bytes.Fields(ids)
			return len(f) == 0 || string(f[0]) == strconv.FormatUint(uint64(uid), 10)
		}
	}
	return true
}

// KillPid sends SIGKILL to one process. KillPid pins the process with a pidfd. Then it calls the function `sure`, and kills the
// process only if the result is true.
func KillPid(pid int, sure func() bool) error {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if !sure() {
		return syscall.ESRCH
	}
	return pidfdSignal(fd, syscall.SIGKILL)
}

func processes() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// threadCount is the index of the number of threads among the fields of /proc/<pid>/stat after the process name.
const threadCount = 17

// UserRuns reports whether a live process of this machine has the given user.
func UserRuns(uid uint32) bool {
	pids, err := processes()
	for _, pid := range pids {
		if _, state, ok := stat(pid); ok && state != 'Z' && state != 'X' && runsAs(pid, uid) {
			return true
		}
	}
	return err != nil
}

// The function `stat` reads the parent and the state from /proc/<pid>/stat. The process name in parentheses may
// contain anything, so the fields are counted after the last parenthesis.
func stat(pid int) (ppid int, state byte, ok bool) {
	b, err := ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, 0, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 2 {
		return 0, 0, false
	}
	state = f[0][0]
	if state == 'Z' && len(f) > threadCount && string(f[threadCount]) != "1" {
		state = 'S' // only its first thread has ended
	}
	ppid, err = strconv.Atoi(string(f[1]))
	return ppid, state, err == nil
}

// These system call numbers are the same on all architectures.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

func pidfdOpen(pid int) (int, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

func pidfdSignal(fd int, sig syscall.Signal) error {
	if _, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(fd), uintptr(sig), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// KeepFilesBack marks open files as close-on-exec. It marks the given descriptor and all higher ones. Go itself opens its files as
// close-on-exec. Files that a shell or a service manager left open may lack this mark. The system call needs Linux 5.11. On an older
// kernel it fails, and KeepFilesBack ignores the error.
func KeepFilesBack(from int) {
	const sysCloseRange, cloexec = 436, 4
	_, _, _ = syscall.Syscall(sysCloseRange, uintptr(from), uintptr(^uint32(0)), cloexec)
}
