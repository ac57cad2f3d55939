//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// diskDir is where the job's own file system is mounted while the sandbox is set up. The job sees only the directories in it that are
// bound to other paths.
const diskDir = seat.SandboxDir + "/disk"

// These are the numbers that the kernel defines for loop devices. A device with autoclear is released with the last use of it, which is the
// mount, so nobody has to release it.
const (
	loopGetFree   = 0x4c82
	loopConfigure = 0x4c0a
	loopAutoclear = 4
	loopTries     = 64
)

// loopConfig is the kernel's struct loop_config.
type loopConfig struct {
	fd, blockSize uint32
	info          struct {
		device, inode, rdevice, offset, sizeLimit uint64
		number, encryptType, encryptKeySize       uint32
		flags                                     uint32
		fileName, cryptName                       [64]byte
		encryptKey                                [32]byte
		init                                      [2]uint64
	}
	reserved [8]uint64
}

// furnishDisk mounts the job's own file system, if the job has one, and returns the directories for SandboxWork and SandboxTmp.
func furnishDisk(o *seat.Order) (work, tmp string, err error) {
	if o.Sandbox.Disk() == "" {
		return o.Sandbox.Scratch, seat.TmpDir, nil
	}
	if err := os.Mkdir(diskDir, 0o700); err != nil {
		return "", "", err
	}
	if err := mountDisk(o.Sandbox.Disk(), diskDir); err != nil {
		return "", "", errors.New("mount the job's own file system (isolation.disk_mb): " + err.Error())
	}
	work, tmp = diskDir+"/work", diskDir+"/tmp"
	for _, dir := range []string{work, tmp} {
		err := os.Mkdir(dir, 0o700)
		if err == nil && o.User != nil {
			err = os.Chown(dir, int(o.User.UID), int(o.User.GID))
		}
		if err != nil {
			return "", "", err
		}
	}
	return work, tmp, nil
}

// leaveDisk removes diskDir once the job's directories are bound to their paths.
func leaveDisk(o *seat.Order) error {
	if o.Sandbox.Disk() == "" {
		return nil
	}
	if err := syscall.Unmount(diskDir, syscall.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount2("+diskDir+")", err)
	}
	return os.Remove(diskDir)
}

// mountDisk mounts an ext4 file system in a file.
func mountDisk(file, dir string) error {
	image, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return errors.New(file + ": " + err.Error())
	}
	defer syscall.Close(image)
	path, device, err := attachLoop(image)
	if err != nil {
		return err
	}
	defer syscall.Close(device) // the mount keeps the device
	// The mount writes no records of files that the job never creates, and gives the blocks of deleted files back to the machine's disk. It
	// forces nothing to the machine's disk, because it is never mounted again. Otherwise the end of a job would wait until everything that
	// the job wrote last is on that disk.
	const flags, options = syscall.MS_NOSUID | syscall.MS_NODEV, "noinit_itable,discard,nobarrier"
	if err := syscall.Mount(path, dir, "ext4", flags, options); err != nil {
		return errors.New("mount " + path + " as ext4: " + err.Error())
	}
	return nil
}

// attachLoop gives a file a loop device, and returns the device's path and an open file of it. Another process may take the free device
// first, and then the function tries the next one.
func attachLoop(image int) (path string, device int, err error) {
	control, err := syscall.Open("/dev/loop-control", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", -1, errors.New("this machine has no loop devices: /dev/loop-control: " + err.Error())
	}
	defer syscall.Close(control)
	config := loopConfig{fd: uint32(image), blockSize: 4096}
	config.info.flags = loopAutoclear
	for range loopTries {
		n, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(control), loopGetFree, 0)
		if errno != 0 {
			return "", -1, errors.New("this machine has no free loop device: " + errno.Error())
		}
		path = "/dev/loop" + strconv.Itoa(int(n))
		if device, err = syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err != nil {
			return "", -1, errors.New("loop device " + path + ": " + err.Error())
		}
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, uintptr(device), loopConfigure, uintptr(unsafe.Pointer(&config)))
		if errno == 0 {
			return path, device, nil
		}
		_ = syscall.Close(device)
		if errno != syscall.EBUSY {
			return "", -1, errors.New("set up loop device " + path + ": " + errno.Error())
		}
	}
	return "", -1, errors.New("other processes take every free loop device of this machine")
}
