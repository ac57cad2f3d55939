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

// OOMKills is how many processes of a cgroup, of either version, the kernel has killed
// for want of memory. One that is gone or does not count has killed none.
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

// Join puts the calling thread into the seat's cgroup, Leave back to where it was. What it
// forks in between stays.
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

// Kill sends SIGKILL to every process in the cgroup and returns how many lived. Unlike
// version 2's, it may have to be called again: they can fork meanwhile. Its own process is
// left out.
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
		// Still in there now that it is held fast: the number is not another's.
		if _, state, ok := stat(pid); ok && state != 'Z' && state != 'X' && g.has(pid) {
			n++
			_ = pidfdSignal(fd, syscall.SIGKILL)
		}
		_ = syscall.Close(fd)
	}
	return n, nil
}

// has asks the process itself. The last two names of a seat's cgroup are the runner's and
// the seat's, which no other has.
func (g Group) has(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	i := strings.LastIndexByte(g.Dir, '/')
	if err != nil || i <= 0 { // a path that names no seat names no process
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

// Remove removes the empty cgroup. That it is gone is no error.
func (g Group) Remove() error { return Cgroup(g.Dir).Remove() }
