//go:build linux

package seat

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// OOMKills returns how many processes of a cgroup the kernel has killed because the cgroup ran out of memory. OOMKills
// works for both cgroup versions. OOMKills returns 0 for a cgroup that is gone or does not count such kills.
func OOMKills(group string) int64 {
	for _, name := range []string{"/memory.events", "/memory.oom_control"} {
		b, err := os.ReadFile(group + name)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(b) {
			if v, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				n, _ := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
				return n
			}
		}
	}
	return 0
}

// Join moves the calling thread into the seat's cgroup, and Leave moves it back. A process that the thread forks
// between Join and Leave stays in the seat's cgroup.
func (g Group) Join() error { return joinTasks(g.Dir) }

// Leave undoes Join.
func (g Group) Leave() error { return joinTasks(g.Back) }

func joinTasks(dir string) error {
	f, err := os.OpenFile(dir+"/tasks", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte("0"))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Kill sends SIGKILL to every process in the cgroup except the calling one, and returns how many were alive. Unlike
// Kill for cgroup version 2, this call may have to be repeated. Processes can fork while it runs.
func (g Group) Kill() (int, error) {
	b, err := os.ReadFile(g.Dir + "/cgroup.procs")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range bytes.Lines(b) {
		pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
		if err != nil || pid <= 0 || pid == os.Getpid() {
			continue
		}
		fd, err := pidfdOpen(pid)
		if err != nil {
			continue
		}
		// A pidfd now pins the PID, and the process is still in the cgroup. Therefore the PID was not reused.
		if _, state, ok := stat(pid); ok && state != 'Z' && state != 'X' && g.has(pid) {
			n++
			_ = pidfdSignal(fd, syscall.SIGKILL)
		}
		_ = syscall.Close(fd)
	}
	return n, nil
}

// The method `has` reports whether a process is in the cgroup, according to the process's list of cgroups in
// /proc. The last two parts of a seat's cgroup path are unique, because they name the runner and the seat.
func (g Group) has(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	i := strings.LastIndexByte(g.Dir, '/')
	if err != nil || i <= 0 { // a path that does not name a seat matches no process
		return false
	}
	tail := []byte(g.Dir[strings.LastIndexByte(g.Dir[:i], '/'):])
	for line := range bytes.Lines(b) {
		if bytes.HasSuffix(bytes.TrimSpace(line), tail) {
			return true
		}
	}
	return false
}

// Remove removes the empty cgroup. If the cgroup does not exist, Remove returns no error.
func (g Group) Remove() error { return Cgroup(g.Dir).Remove() }
