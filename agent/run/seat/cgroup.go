//go:build linux

package seat

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Cgroup is the absolute path of a cgroup2 directory.
type Cgroup string

// Kill sends SIGKILL to every process in the cgroup and below it, including those that are being forked right now. Kill
// returns no error if the cgroup does not exist.
func (c Cgroup) Kill() error {
	err := writeFile(string(c)+"/cgroup.kill", "1")
	if errors.Is(err, os.ErrNotExist) {
		if _, gone := os.Stat(string(c)); errors.Is(gone, os.ErrNotExist) {
			return nil
		}
	}
	if errors.Is(err, syscall.ENODEV) { // removed in between
		return nil
	}
	return err
}

// Populated returns true if a live process is in the cgroup or below it. Zombies do not count, because they
// hold neither memory nor devices.
func (c Cgroup) Populated() (bool, error) {
	b, err := ReadFile(string(c) + "/cgroup.events")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("populated ")); ok {
			return !bytes.Equal(bytes.TrimSpace(v), []byte("0")), nil
		}
	}
	return true, errors.New(`cgroup.events has no "populated" field`)
}

// Remove removes the cgroup and the cgroups that a job created below it. The cgroups to remove must be empty.
func (c Cgroup) Remove() error {
	entries, err := os.ReadDir(string(c))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := (c + "/" + Cgroup(e.Name())).Remove(); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(string(c)); err != nil && err != syscall.ENOENT {
		return &os.PathError{Op: "rmdir", Path: string(c), Err: err}
	}
	return nil
}

// RemoveEmpty removes a seat's cgroup if no process is in it, and reports whether the cgroup is gone. It works for both cgroup versions.
// The kernel removes only a cgroup without live processes, so the removal itself proves that none is left. It costs much less than to
// read the cgroup first. A cgroup that is in use, or in which a job has created others, is left to Kill and Remove.
func (c Cgroup) RemoveEmpty() bool {
	return isRemoved(string(c)+"/"+SupervisorGroup) && c.RemoveJob() && isRemoved(string(c))
}

// RemoveJob is like RemoveEmpty, but removes only the job's cgroup below the seat's cgroup.
func (c Cgroup) RemoveJob() bool { return isRemoved(string(c) + "/" + JobGroup) }

func isRemoved(dir string) bool {
	err := syscall.Rmdir(dir)
	return err == nil || err == syscall.ENOENT
}

// CPU returns the total processor time of all processes that ever ran in the cgroup. If the kernel does not count this
// time, CPU returns 0.
func (c Cgroup) CPU() time.Duration {
	b, err := ReadFile(string(c) + "/cpu.stat")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("usage_usec ")); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			return time.Duration(n) * time.Microsecond
		}
	}
	return 0
}

// PeakMemory returns the cgroup's peak memory in bytes, for either cgroup version. Without a memory controller,
// PeakMemory returns 0.
func (c Cgroup) PeakMemory() int64 {
	for _, name := range []string{"/memory.peak", "/memory.max_usage_in_bytes"} {
		if b, err := ReadFile(string(c) + name); err == nil {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
			return n
		}
	}
	return 0
}
