//go:build linux

package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The directories of the machine that a job mounts are attached after the runtime has made the container, and before the container's first
// process goes on. The runtime is root and creates missing mount points, and so do hooks with other files. If the directories were there
// already, a link in the image could lead the runtime into them, and it would write there with rights that the job does not have.

// These are the numbers that the kernel defines, the same for every architecture.
const (
	sysOpenTree     = 428
	sysMoveMount    = 429
	sysOpenat2      = 437
	sysMountSetattr = 442

	atFDCWD       = -100
	atEmptyPath   = 0x1000
	atRecursive   = 0x8000
	openTreeClone = 1
	fromFile      = 0x04 // MOVE_MOUNT_F_EMPTY_PATH
	toFile        = 0x40 // MOVE_MOUNT_T_EMPTY_PATH

	resolveNoXdev      = 0x01
	resolveNoMagic     = 0x02
	resolveNoSymlinks  = 0x04
	resolveBeneath     = 0x08
	resolveInRoot      = 0x10
	mountReadOnly      = 0x1
	mountNoSuid        = 0x2
	mountNoDev         = 0x4
	openPath           = 0x200000 // O_PATH
	permissionsOfDir   = 0o755
	permissionsOfFile  = 0o644
	umaskOfMountPoints = 0o022
)

// openHow is the kernel's struct open_how.
type openHow struct{ flags, mode, resolve uint64 }

// mountAttr is the kernel's struct mount_attr.
type mountAttr struct{ set, clear, propagation, userns uint64 }

// openat2 opens a path without its file's content, as resolve says. A dir below 0 is the working directory.
func openat2(dir int, path string, flags, resolve uint64) (int, error) {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return -1, err
	}
	how := openHow{flags: openPath | syscall.O_CLOEXEC | flags, resolve: resolve}
	fd, _, errno := syscall.Syscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// openSource opens what a job mounts. The caller has the rights of the job's user. No symbolic link below Mount.Below is followed: a user
// who may write there could let it lead anywhere, also after it was checked.
func openSource(m *seat.Mount) (int, error) {
	// The directory that the administrator has allowed may be, or be below, a link. With O_DIRECTORY, an automounter mounts it.
	below, err := openat2(atFDCWD, m.Below, syscall.O_DIRECTORY, 0)
	rest := strings.TrimPrefix(strings.TrimPrefix(m.Source, m.Below), "/")
	if err != nil || rest == "" {
		return below, err
	}
	defer syscall.Close(below)
	const resolve = resolveBeneath | resolveNoSymlinks | resolveNoMagic
	fd, err := openat2(below, rest, syscall.O_DIRECTORY, resolve)
	if err == syscall.ENOTDIR {
		fd, err = openat2(below, rest, 0, resolve)
	}
	return fd, err
}

// The method `mounts` returns what is attached in the container: the directory of the job's checkpoints, and the job's mounts.
func (s *supervisor) mounts() []seat.Mount {
	c := &s.order.Container
	if c.Data == "" {
		return c.Mounts
	}
	return append([]seat.Mount{{Source: c.Data, Target: c.Data, Below: c.Data}}, c.Mounts...)
}

// nameOf says which part of the job asks for a mount.
func (s *supervisor) nameOf(m *seat.Mount) string {
	if m.Source == s.order.Container.Data && m.Target == m.Source {
		return "checkpoint.path " + m.Source
	}
	return "mount " + m.Source
}

// openMounts opens the sources of the job's mounts with the rights of the job's user, and returns a copy of each mount, which is attached
// nowhere yet. Only the job's own user may decide what it reaches: otherwise the job could reach a directory below another one that is
// closed to it. With a reason, the job is at fault.
func (s *supervisor) openMounts() (trees []int, why string, err error) {
	defer func() {
		if why != "" || err != nil {
			closeFiles(trees)
			trees = nil
		}
	}()
	mounts := s.mounts()
	for i := range mounts {
		m, fd := &mounts[i], -1
		if bad := s.asUser(func() (err error) { fd, err = openSource(m); return err }); bad != nil {
			return trees, s.nameOf(m) + ": " + sourceAdvice(bad), nil
		}
		tree, why, err := cloneMount(fd, m.ReadOnly)
		_ = syscall.Close(fd)
		if why != "" || err != nil {
			if why != "" {
				why = s.nameOf(m) + ": " + why
			}
			return trees, why, err
		}
		trees = append(trees, tree)
	}
	return trees, "", nil
}

// sourceAdvice says what to do about a source that cannot be opened.
func sourceAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "it does not exist on the node: create it, or choose nodes that have it with placement.node_selector"
	case errors.Is(err, syscall.ELOOP):
		return "it is, or is below, a symbolic link, which a mount does not follow: give the path to which the link leads"
	case errors.Is(err, syscall.EACCES):
		return "the job's user may not reach it: give this user the right to enter the directories above it"
	}
	return err.Error()
}

// cloneMount copies the mount of an open file or directory, with everything mounted below it. In the copy, device files and set-user-ID
// bits have no effect, and mounts that the machine makes later do not appear, because they would not have these restrictions.
func cloneMount(fd int, readOnly bool) (tree int, why string, err error) {
	var st syscall.Stat_t
	if err = syscall.Fstat(fd, &st); err != nil {
		return -1, "", os.NewSyscallError("fstat", err)
	}
	if kind := st.Mode & syscall.S_IFMT; kind != syscall.S_IFDIR && kind != syscall.S_IFREG {
		return -1, "it is neither a directory nor a regular file: give the directory that contains it", nil
	}
	var empty byte
	here := uintptr(unsafe.Pointer(&empty))
	r, _, errno := syscall.Syscall(sysOpenTree, uintptr(fd), here, openTreeClone|syscall.O_CLOEXEC|atEmptyPath|atRecursive)
	if errno != 0 {
		return -1, "", os.NewSyscallError("open_tree", errno)
	}
	attr := mountAttr{set: mountNoSuid | mountNoDev, propagation: syscall.MS_PRIVATE}
	if readOnly {
		attr.set |= mountReadOnly
	}
	_, _, errno = syscall.Syscall6(sysMountSetattr, r, here, atEmptyPath|atRecursive, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		_ = syscall.Close(int(r))
		return -1, "", os.NewSyscallError("mount_setattr, which needs Linux 5.12", errno)
	}
	return int(r), "", nil
}

// attachMounts attaches the mounts in the container with this process, and verifies the program that the runtime starts next. With a reason,
// the job is at fault. The job must not start if either result is set.
func (s *supervisor) attachMounts(pid int, trees []int) (why string, err error) {
	var self syscall.Stat_t
	program := "/proc/self/exe"
	if s.order.Container.Root {
		program = seat.RootProgram
	}
	if err = syscall.Stat(program, &self); err != nil {
		return "", os.NewSyscallError("stat", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread enters the container. It is never unlocked, so it ends with this function.
		runtime.LockOSThread()
		if err = enterMounts(pid); err != nil {
			return
		}
		mounts := s.mounts()
		for i, tree := range trees {
			if why, err = attach(tree, mounts[i].Target, mounts[i].Target == s.order.Container.Data); why != "" || err != nil {
				return
			}
		}
		why = verifyInside(&self)
	}()
	<-done
	return why, err
}

// verifyInside checks that the container's first program, at the path from which the runtime starts it, is the given one. A mount of the job,
// or a link of the image, may cover it: the job would then run without the system call filter. The directory /run itself belongs to the
// image's file system, so nobody outside of the container can change the path after the check.
func verifyInside(self *syscall.Stat_t) (why string) {
	const resolve = resolveBeneath | resolveNoSymlinks
	top, rest, _ := strings.Cut(strings.TrimPrefix(seat.SandboxInside, "/"), "/")
	root, err := openat2(atFDCWD, "/", syscall.O_DIRECTORY, 0)
	if err == nil {
		defer syscall.Close(root)
		root, err = openat2(root, top, syscall.O_DIRECTORY, resolve|resolveNoXdev)
	}
	if err == nil {
		defer syscall.Close(root)
		root, err = openat2(root, rest, 0, resolve)
	}
	var st syscall.Stat_t
	if err == nil {
		defer syscall.Close(root)
		err = syscall.Fstat(root, &st)
	}
	if err == nil && st.Dev == self.Dev && st.Ino == self.Ino {
		return ""
	}
	return "a mount of the job, also after links of the image, covers " + seat.SandboxDir + ", which Ares makes for the job: choose another target"
}

// enterMounts moves this thread into the mount namespace of a process. Its root directory is then that of the namespace.
func enterMounts(pid int) error {
	fd, err := syscall.Open("/proc/"+strconv.Itoa(pid)+"/ns/mnt", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return errors.New("open the mounts of the container: " + err.Error())
	}
	defer syscall.Close(fd)
	if err := syscall.Unshare(syscall.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare(CLONE_FS)", err)
	}
	if _, _, errno := syscall.RawSyscall(sysSetns, uintptr(fd), syscall.CLONE_NEWNS, 0); errno != 0 {
		return os.NewSyscallError("setns", errno)
	}
	syscall.Umask(umaskOfMountPoints) // of this thread only
	return nil
}

// The function `attach` puts a mount at a path of the container. A directory for checkpoints may be in the container's /tmp or /dev/shm.
func attach(tree int, target string, forCheckpoints bool) (why string, err error) {
	var st syscall.Stat_t
	if err = syscall.Fstat(tree, &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	isDir := st.Mode&syscall.S_IFMT == syscall.S_IFDIR
	root, err := openat2(atFDCWD, "/", syscall.O_DIRECTORY, 0)
	if err != nil {
		return "", errors.New("open the container's root directory: " + err.Error())
	}
	defer syscall.Close(root)
	var top syscall.Stat_t
	if err = syscall.Fstat(root, &top); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	path := strings.Trim(target, "/")
	point, err := openMountPoint(root, path, isDir, resolveNoXdev)
	if err == syscall.EXDEV && forCheckpoints && isForData(path) {
		point, err = openMountPoint(root, path, isDir, resolveNoSymlinks)
	}
	if err != nil {
		return "mount at " + target + ": " + targetAdvice(err), nil
	}
	defer syscall.Close(point)
	if err = syscall.Fstat(point, &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	if st.Dev == top.Dev && st.Ino == top.Ino { // the job would not see it
		return "mount at " + target + ": the image has a link to its root directory there: choose another target", nil
	}
	if there := st.Mode&syscall.S_IFMT == syscall.S_IFDIR; there != isDir {
		return "mount at " + target + ": a directory can only be mounted at a directory, and a file at a file: choose another target", nil
	}
	var empty byte
	here := uintptr(unsafe.Pointer(&empty))
	if _, _, errno := syscall.Syscall6(sysMoveMount, uintptr(tree), here, uintptr(point), here, fromFile|toFile, 0); errno != 0 {
		return "", errors.New("mount at " + target + ": " + errno.Error())
	}
	return "", nil
}

func targetAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EXDEV):
		return "another mount covers that path: choose a target that is outside of /tmp and of other targets, also after links of the image"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ELOOP):
		return "the image has a file or a link that leads nowhere on that path: choose another target"
	}
	return err.Error()
}

// isForData reports whether a path is in a directory of the container that belongs to the job, and not to its image.
func isForData(path string) bool {
	for _, dir := range [...]string{"tmp", "dev/shm"} {
		if rest, ok := strings.CutPrefix(path, dir); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// openMountPoint opens a path of the container, and creates what is missing. Links of the image are followed inside of it. What is created
// belongs to root, so with resolveNoXdev, the path never leaves the image's own file system, and with resolveNoSymlinks, it follows no link.
func openMountPoint(root int, path string, isDir bool, limit uint64) (int, error) {
	fd, err := openat2(root, path, 0, resolveInRoot|resolveNoMagic|limit)
	if err != syscall.ENOENT {
		return fd, err
	}
	above, name := root, path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		if above, err = openMountPoint(root, path[:i], true, limit); err != nil {
			return -1, err
		}
		defer syscall.Close(above)
		name = path[i+1:]
	}
	if isDir {
		err = syscall.Mkdirat(above, name, permissionsOfDir)
	} else {
		err = syscall.Mknodat(above, name, syscall.S_IFREG|permissionsOfFile, 0)
	}
	if err != nil {
		return -1, err
	}
	return openat2(above, name, syscall.O_NOFOLLOW, resolveBeneath|resolveNoSymlinks|resolveNoXdev)
}
