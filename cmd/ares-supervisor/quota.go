//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// shmDir is where programs create shared memory.
const shmDir = "/dev/shm"

// furnishShm mounts a /dev/shm with a fixed size. Its memory is charged to the job and freed with the job's last process. The System V
// memory becomes the job's own too, because it would otherwise evade the size and outlive the job. Ranks that share Sandbox.Shm keep
// sharing the machine's System V memory.
func furnishShm(o *seat.Order) error {
	if _, err := os.Stat(shmDir); err != nil || o.Sandbox.ShmMB == 0 && o.Sandbox.Shm == "" {
		return nil
	}
	if o.Sandbox.Shm != "" {
		return bind(o.Sandbox.Shm, shmDir)
	}
	// A kernel without IPC namespaces answers EINVAL.
	if err := syscall.Unshare(syscall.CLONE_NEWIPC); err != nil && err != syscall.EINVAL {
		return os.NewSyscallError("unshare(CLONE_NEWIPC)", err)
	}
	return mountSized(shmDir, seat.TmpfsOptions(o.Sandbox.ShmMB)+",mode=1777")
}

// furnishSized mounts directories with a fixed size over those on disk: the temporary directory and the working directory.
func furnishSized(o *seat.Order) error {
	options := ",mode=0700"
	if u := o.User; u != nil {
		options += ",uid=" + strconv.FormatUint(uint64(u.UID), 10) + ",gid=" + strconv.FormatUint(uint64(u.GID), 10)
	}
	if mb := o.Sandbox.TmpMB; mb > 0 {
		if err := mountSized(seat.SandboxTmp, seat.TmpfsOptions(mb)+options); err != nil {
			return err
		}
	}
	if mb := o.Sandbox.WorkMB; mb > 0 && o.Sandbox.Scratch != "" {
		return mountSized(seat.SandboxWork, seat.TmpfsOptions(mb)+options)
	}
	return nil
}

func mountSized(path, options string) error {
	if err := syscall.Mount("ares", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		return errors.New("mount " + path + ": " + err.Error())
	}
	return nil
}

// makeDirInTmp creates the job's working directory if it is in the job's own /tmp, which is empty at the start. It runs as the job's
// user.
func makeDirInTmp(o *seat.Order) error {
	if !o.Sandbox.OwnTmp || !strings.HasPrefix(o.Dir, "/tmp/") && !strings.HasPrefix(o.Dir, "/var/tmp/") {
		return nil
	}
	return os.MkdirAll(o.Dir, 0o700)
}
