//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A job with Container.Root has user 0 in a user namespace that knows one user, the job's. All other namespaces of the container belong to
// the machine, and so do its mounts: the job's capabilities are of no use there. What remains of them are rights over files of the job's user.
//
// The kernel lets only a process with one thread enter a user namespace, and a Go program has several threads from the beginning. So the
// first program in such a container is a copy of this one that begins elsewhere: at rootEntry, which enters the namespace and then goes on
// as usual. The first process of the container makes the namespace, with the rights of the job's user, and waits. The supervisor writes
// which user the namespace knows, and passes the order. A command beside the job enters the same namespace.
//
// The copy can be executed but not read. For the kernel, such a process belongs to the machine until it executes the job's program: no
// process of the job can trace it or open its files.

// rootEntered is what the system call of rootEntry has returned, or 1 if the program has begun as usual. It is set before the Go runtime
// initializes itself, which leaves variables alone.
var rootEntered = 1

const (
	rootReady  = '+' // the first process of a container waits for its user
	rootFailed = '-' // it could not make a user namespace; the reason follows

	elfEntry      = 24 // offset of the program's entry in the ELF header
	elfType       = 16
	elfExecutable = 2 // a program with fixed addresses

	mountIDMap     = 0x00100000 // MOUNT_ATTR_IDMAP
	layersDir      = seat.SandboxDir + "/layers"
	maxLayers      = "256"
	programForRoot = 0o711
)

// rootCapabilities are those of Docker that have an effect: rights over files, user IDs and processes of the namespace.
var rootCapabilities = [...]uintptr{
	0,  // CAP_CHOWN
	1,  // CAP_DAC_OVERRIDE
	3,  // CAP_FOWNER
	4,  // CAP_FSETID
	5,  // CAP_KILL
	6,  // CAP_SETGID
	7,  // CAP_SETUID
	8,  // CAP_SETPCAP
	31, // CAP_SETFCAP
}

// writeRootProgram writes the copy of this program that begins at rootEntry.
func writeRootProgram(self, path string) error {
	if rootEntryAt == 0 {
		return errors.New("container_root is not supported on this architecture")
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if len(program) < elfEntry+8 || program[elfType] != elfExecutable {
		return errors.New("container_root needs a supervisor with fixed addresses: build it without -buildmode=pie")
	}
	for i := range 8 { // all architectures with rootEntry are little-endian
		program[elfEntry+i] = byte(uint64(rootEntryAt) >> (8 * i))
	}
	if err = os.WriteFile(path, program, programForRoot); err != nil {
		return err
	}
	return os.Chmod(path, programForRoot) // whatever the umask is
}

// enteredRoot returns why rootEntry could not enter its user namespace, or nil.
func enteredRoot() error {
	switch {
	case rootEntered == 0:
		return nil
	case rootEntered > 0:
		return errors.New("the program did not begin at its entry for user namespaces")
	}
	errno := syscall.Errno(-rootEntered)
	text := "the machine does not let the job's user make a user namespace: " + errno.Error()
	switch errno {
	case syscall.ENOSPC:
		text += " (raise user.max_user_namespaces)"
	case syscall.EPERM:
		text += " (see kernel.unprivileged_userns_clone)"
	case syscall.EINVAL:
		text += " (the kernel was built without CONFIG_USER_NS)"
	}
	return errors.New(text)
}

// becomeRoot leaves the job its capabilities over its own files, and no others. It changes this thread, which executes the job's program.
func becomeRoot() error {
	var kept [2]uint32
	for _, c := range rootCapabilities {
		kept[c/32] |= 1 << (c % 32)
	}
	for c := uintptr(0); c < 64 && prctlErrno(prCapbsetRead, c) != syscall.EINVAL; c++ {
		if kept[c/32]&(1<<(c%32)) != 0 {
			continue
		}
		if err := prctl(prCapbsetDrop, c); err != nil {
			return errors.New("drop the capability " + strconv.Itoa(int(c)) + ": " + err.Error() +
				" (on Ubuntu, see kernel.apparmor_restrict_unprivileged_userns)")
		}
	}
	const version3 = 0x20080522
	header := struct {
		version uint32
		pid     int32
	}{version: version3}
	data := [2]struct{ effective, permitted, inheritable uint32 }{{kept[0], kept[0], 0}, {kept[1], kept[1], 0}}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); errno != 0 {
		return errors.New("limit the capabilities: " + errno.Error() + " (on Ubuntu, see kernel.apparmor_restrict_unprivileged_userns)")
	}
	return nil
}

const prCapbsetRead = 23

func prctlErrno(option, value uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0)
	return errno
}

// admitRoot waits until the first process of a container with Container.Root has made its user namespace, lets the namespace know the job's
// user, as root. The process then waits for its order. An error is the machine's fault.
func (s *supervisor) admitRoot(f *containerFiles, pid int) error {
	if !s.order.Container.Root {
		return nil
	}
	if b, err := seat.ReadFile(dumpableFile); err != nil || !protectsUnreadable(string(b)) {
		return errors.New("the kernel would let the job trace programs that it cannot read: set fs.suid_dumpable to 0 or 2")
	}
	f.release()
	said := f.read(1)
	if said == "" {
		return errors.New("the first process of the container has ended")
	}
	if said[0] != rootReady {
		return errors.New(said[1:] + f.answer())
	}
	return s.mapRoot(pid)
}

// dumpableFile has the setting fs.suid_dumpable.
const dumpableFile = "/proc/sys/fs/suid_dumpable"

// protectsUnreadable reports whether the setting keeps users from tracing processes of programs that they cannot read.
func protectsUnreadable(setting string) bool {
	setting = strings.TrimSpace(setting)
	return setting == "0" || setting == "2"
}

// mapRoot writes the only user and the only group of a container's user namespace, verifies them, and keeps the namespace for commands beside the job.
func (s *supervisor) mapRoot(pid int) error {
	dir, u := "/proc/"+strconv.Itoa(pid), s.order.User
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return err
	}
	its, err := os.Readlink(dir + "/ns/user")
	if err != nil {
		return err
	}
	if own == its {
		return errors.New("the container is in the machine's user namespace")
	}
	fd, err := syscall.Open(dir+"/ns/user", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir + "/ns/user", Err: err}
	}
	s.member.user = fd
	groups, err := hasGroups(dir)
	if err != nil {
		return err
	}
	if groups { // a process that drops a group can reach what is closed to this group
		if err = seat.WriteFile(dir+"/setgroups", []byte("deny"), 0, 0); err != nil {
			return err
		}
	}
	for name, id := range map[string]uint32{"/gid_map": u.GID, "/uid_map": u.UID} {
		line := "0 " + strconv.FormatUint(uint64(id), 10) + " 1"
		if err = seat.WriteFile(dir+name, []byte(line), 0, 0); err != nil {
			return err
		}
		b, err := seat.ReadFile(dir + name)
		if err != nil {
			return err
		}
		if got := strings.Join(strings.Fields(string(b)), " "); got != line {
			return errors.New("the container's user namespace has the map " + got + " and not " + line)
		}
	}
	return nil
}

// hasGroups reports whether a process has additional groups.
func hasGroups(dir string) (bool, error) {
	b, err := seat.ReadFile(dir + "/status")
	for line := range strings.SplitSeq(string(b), "\n") {
		if groups, ok := strings.CutPrefix(line, "Groups:"); ok && err == nil {
			return strings.TrimSpace(groups) != "", nil
		}
	}
	return true, err
}

// mountOwned mounts copies of the mounts of the image's layers in layersDir, in which the files belong to the job's user. It returns the
// names there, from the highest layer to the lowest. The layers themselves stay as they are.
func mountOwned(o *seat.Order) (lower string, err error) {
	if err = os.Mkdir(layersDir, 0o700); err != nil {
		return "", err
	}
	if err = syscall.Mount("ares", layersDir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0700,size=64k,nr_inodes="+maxLayers); err != nil {
		return "", errors.New("mount " + layersDir + ": " + err.Error())
	}
	var s space
	defer s.close()
	names := make([]string, 0, len(o.Container.Layers))
	for i := len(o.Container.Layers) - 1; i >= 0; i-- {
		name := strconv.Itoa(i)
		if err = s.mountLayer(o, o.Container.Layers[i], layersDir+"/"+name); err != nil {
			return "", errors.New("mount a layer of the image for container_root (it needs Linux 5.19, and a file system for the agent's directory that has idmapped mounts): " + err.Error())
		}
		names = append(names, name)
	}
	return strings.Join(names, ":"), nil
}

// A space is a user namespace in which the owner of files has another ID. The layers of an image usually have one owner.
type space struct {
	uid, gid uint32
	isOpen   bool
	fd       int
}

func (s *space) close() {
	if s.isOpen {
		_ = syscall.Close(s.fd)
	}
	s.isOpen = false
}

// mountLayer mounts a layer at a new directory. Its files belong to the job's user there.
func (s *space) mountLayer(o *seat.Order, layer, at string) error {
	path := o.Container.Dir + "/" + layer + "/" + seat.LayerTree
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	if !s.isOpen || s.uid != st.Uid || s.gid != st.Gid {
		s.close()
		fd, err := userNamespace(st.Uid, o.User.UID, st.Gid, o.User.GID)
		if err != nil {
			return err
		}
		*s = space{uid: st.Uid, gid: st.Gid, isOpen: true, fd: fd}
	}
	from, err := openat2(atFDCWD, path, syscall.O_DIRECTORY, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(from)
	var empty byte
	here := uintptr(unsafe.Pointer(&empty))
	tree, _, errno := syscall.Syscall(sysOpenTree, uintptr(from), here, openTreeClone|syscall.O_CLOEXEC|atEmptyPath)
	if errno != 0 {
		return os.NewSyscallError("open_tree", errno)
	}
	defer syscall.Close(int(tree))
	attr := mountAttr{set: mountIDMap | mountReadOnly | mountNoSuid | mountNoDev, propagation: syscall.MS_PRIVATE, userns: uint64(s.fd)}
	if _, _, errno = syscall.Syscall6(sysMountSetattr, tree, here, atEmptyPath, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0); errno != 0 {
		return os.NewSyscallError("mount_setattr(MOUNT_ATTR_IDMAP)", errno)
	}
	to, err := openat2(atFDCWD, at, syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(to)
	if _, _, errno = syscall.Syscall6(sysMoveMount, tree, here, uintptr(to), here, fromFile|toFile, 0); errno != 0 {
		return os.NewSyscallError("move_mount", errno)
	}
	return nil
}

// userNamespace opens a new user namespace in which one user and one group have other IDs. It is only for a mount: no process stays in it.
func userNamespace(uid, asUID, gid, asGID uint32) (int, error) {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"ares-supervisor", seat.Probe}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, Ptrace: true, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: int(uid), HostID: int(asUID), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: int(gid), HostID: int(asGID), Size: 1}},
	}})
	if err != nil {
		return -1, errors.New("make a user namespace: " + err.Error())
	}
	defer func() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = waitFor(pid)
	}()
	if ws, err := waitFor(pid); err != nil || !ws.Stopped() {
		return -1, errors.Join(errors.New("make a user namespace: its process has ended"), err)
	}
	path := "/proc/" + strconv.Itoa(pid) + "/ns/user"
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// leaveOwned removes layersDir. The image keeps the mounts that it is made of.
func leaveOwned() error {
	if err := syscall.Unmount(layersDir, syscall.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount2("+layersDir+")", err)
	}
	return os.Remove(layersDir)
}

// spawnRootBeside forks a command beside a job with Container.Root. Its process enters the job's user namespace before it executes the command.
func (s *supervisor) spawnRootBeside(x *execution, cmd *seat.Exec, attr *syscall.SysProcAttr, env []string) (int, error) {
	var order, status [2]int
	f := &containerFiles{order: [2]int{-1, -1}, status: [2]int{-1, -1}}
	defer f.close()
	if err := errors.Join(syscall.Pipe2(order[:], syscall.O_CLOEXEC), syscall.Pipe2(status[:], syscall.O_CLOEXEC)); err != nil {
		return 0, err
	}
	f.order, f.status = order, status
	pid, machine, err := s.fork(seat.SandboxInside, []string{seat.SandboxInside, seat.BesideRoot}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1"}, Sys: attr,
		Files: []uintptr{uintptr(x.files[1]), uintptr(x.files[2]), uintptr(x.files[3]), uintptr(f.order[0]), uintptr(f.status[1]), uintptr(s.member.user)},
	})
	if err = errors.Join(machine, err); err != nil {
		return 0, errors.New("set the command apart: " + err.Error())
	}
	in := seat.InsideOrder{Argv: cmd.Argv, Env: env, Dir: s.order.Dir, Seccomp: s.order.Sandbox.Seccomp, UserNamespaces: s.order.Sandbox.UserNamespaces}
	f.pass(in.Encode())
	if why := f.answer(); why != "" {
		return 0, errors.New(why)
	}
	return pid, nil
}
