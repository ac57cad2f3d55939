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
		b, err := ReadFile(group + name)
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

// Join moves the calling thread into the job's cgroup, and Leave moves it back. A process that the thread forks
// between Join and Leave stays in the job's cgroup.
func (g Group) Join() error { return writeFile(g.Dir+"/"+JobGroup+"/tasks", "0") }

// Take moves a process into the job's cgroup. The memory that it has already stays with the cgroup that it came from.
func (g Group) Take(pid int) error {
	return writeFile(g.Dir+"/"+JobGroup+"/cgroup.procs", strconv.Itoa(pid))
}

// Leave undoes Join.
func (g Group) Leave() error { return writeFile(g.Back+"/tasks", "0") }

// writeFile writes to a file of the kernel. Unlike os.WriteFile, it never creates a file.
func writeFile(path, value string) error {
	return WriteFile(path, []byte(value), 0, 0)
}

// Kill sends SIGKILL to every process in the cgroup and below it, except the calling one, and returns how many were alive. Unlike
// Kill for cgroup version 2, this call may have to be repeated. Processes can fork while it runs.
func (g Group) Kill() (int, error) { return g.kill("") }

// KillJob is like Kill, but does not kill the supervisor.
func (g Group) KillJob() (int, error) { return g.kill(SupervisorGroup) }

// The method `kill` kills all processes except those in the child cgroup `spared`.
func (g Group) kill(spared string) (int, error) {
	pids, err := processesIn(g.Dir, spared)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, pid := range pids {
		if pid == os.Getpid() {
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

// processesIn lists the processes in a v1 cgroup and below it, without the child cgroup `spared`. A cgroup that does not exist has none.
func processesIn(dir, spared string) (pids []int, err error) {
	b, err := ReadFile(dir + "/cgroup.procs")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		if pid, bad := strconv.Atoi(string(bytes.TrimSpace(line))); bad == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return pids, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == spared {
			continue
		}
		more, err := processesIn(dir+"/"+e.Name(), "")
		if err != nil {
			return nil, err
		}
		pids = append(pids, more...)
	}
	return pids, nil
}

// The method `has` reports whether a process is in the cgroup or below it, according to the process's list of cgroups in
// /proc. The last two parts of a seat's cgroup path are unique, because they name the runner and the seat.
func (g Group) has(pid int) bool {
	b, err := ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	i := strings.LastIndexByte(g.Dir, '/')
	if err != nil || i <= 0 { // a path that does not name a seat matches no process
		return false
	}
	tail := g.Dir[strings.LastIndexByte(g.Dir[:i], '/'):]
	for line := range strings.Lines(string(b)) {
		if strings.Contains(strings.TrimSpace(line)+"/", tail+"/") {
			return true
		}
	}
	return false
}

// Remove removes the empty cgroup and those below it. If the cgroup does not exist, Remove returns no error.
func (g Group) Remove() error { return Cgroup(g.Dir).Remove() }
