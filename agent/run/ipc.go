//go:build linux

package run

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// System V objects outlive their processes. The ranks of one job share them with the machine, so without a clean-up a job could take memory of
// the machine forever, and the next job with the same UID could read it. A job with one rank has objects of its own, which end with it.

// ipcKinds lists the files of /proc/sysvipc with the system calls that remove an object of the kind.
var ipcKinds = []struct {
	file   string
	remove func(id uintptr) syscall.Errno
}{
	{"shm", func(id uintptr) syscall.Errno { return ipcControl(unix.SYS_SHMCTL, id, ipcRemove, 0) }},
	{"msg", func(id uintptr) syscall.Errno { return ipcControl(unix.SYS_MSGCTL, id, ipcRemove, 0) }},
	{"sem", func(id uintptr) syscall.Errno { return ipcControl(unix.SYS_SEMCTL, id, 0, ipcRemove) }},
}

const ipcRemove = 0 // IPC_RMID

func ipcControl(call, id, a, b uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(call, id, a, b)
	return errno
}

// removeIPC removes the System V objects of a forgotten seat's user, if no other seat on this node has the user. The objects of a user
// that others than Ares use stay. Errors are ignored, because somebody else may have removed an object.
func (r *Runner) removeIPC(order *seat.Order) {
	if order.User == nil || !order.Sandbox.ShareShm || !order.Sandbox.OwnUser {
		return
	}
	uid := strconv.FormatUint(uint64(order.User.UID), 10)
	if r.hasUser(order.User.UID) || seat.UserRuns(order.User.UID) { // UserRuns sees the jobs of another agent on this machine
		return
	}
	for _, kind := range ipcKinds {
		table, err := os.ReadFile("/proc/sysvipc/" + kind.file)
		if err != nil {
			continue // the kernel has no System V objects
		}
		for _, id := range ipcObjects(string(table), uid) {
			_ = kind.remove(id)
		}
	}
}

// ipcObjects returns the IDs of the objects in a table of /proc/sysvipc that a user owns or has created. The first line names the columns.
func ipcObjects(table, uid string) []uintptr {
	var ids []uintptr
	var names []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if names == nil {
			names = fields
			continue
		}
		id, owned := uint64(0), false
		for i, name := range names[:min(len(names), len(fields))] {
			switch name {
			case "shmid", "msqid", "semid":
				id, _ = strconv.ParseUint(fields[i], 10, 32)
			case "uid", "cuid":
				owned = owned || fields[i] == uid
			}
		}
		if owned {
			ids = append(ids, uintptr(id))
		}
	}
	return ids
}

// hasUser reports whether a seat runs as the user. If that cannot be read, it may.
func (r *Runner) hasUser(uid uint32) bool {
	entries, err := fs.ReadDir(r.root.FS(), seatsDir)
	if err != nil {
		return true
	}
	for _, e := range entries {
		key, ok := seat.ParseKey(e.Name())
		if !ok {
			continue
		}
		if order, err := r.readOrder(key); err != nil || order.User != nil && order.User.UID == uid {
			return true
		}
	}
	return false
}
