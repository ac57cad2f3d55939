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

// The functions in this file change only the job's thread. On Linux, each thread has its own mount namespace, capabilities and v1
// cgroups. A child process inherits those of the thread that forks it. The loop and the pump run on other threads and still see the
// whole machine, without the job's isolation.

const prCapbsetDrop = 24

// The method `apart` isolates the job's thread, so that the job inherits the isolation. If the method returns an error, no process has
// been started, and the failure is attributed to the machine.
func (s *supervisor) apart() error {
	o := &s.order
	if !o.Sandbox.Private { // otherwise the files are inside the sandbox
		if err := furnishSecrets(o); err != nil {
			return err
		}
	}
	if o.User == nil {
		return nil // the job runs as root or as the agent's own user, which could undo the isolation
	}
	if err := furnishNetwork(o); err != nil {
		return err
	}
	if o.Sandbox.Private {
		if err := furnish(o); err != nil {
			return err
		}
	}
	if o.Sandbox.Scoped {
		if err := enterScope(); err != nil {
			return err
		}
	}
	return s.restrict()
}

// The method `restrict` takes from the job's thread what it does not need itself, so that the job does not inherit it. The thread must have
// no_new_privs.
func (s *supervisor) restrict() error {
	leaveKeyring()
	dropCapabilities()
	if s.order.Sandbox.Seccomp {
		return installFilter(s.order.Sandbox.UserNamespaces)
	}
	return nil
}

// The function `furnish` sets up the job's view of the machine's file systems. The order matters. A path that is bind-mounted may be
// below /tmp, so it must be mounted before another mount covers /tmp.
func furnish(o *seat.Order) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare(CLONE_NEWNS)", err)
	}
	// If the machine mounts a file system later, for example through an automounter, that mount becomes visible in the sandbox. Mounts
	// that are made in the sandbox stay invisible outside it.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return errors.New("make the mounts the job's own: " + err.Error())
	}
	if err := furnishDir(o); err != nil {
		return err
	}
	if err := furnishShm(o); err != nil {
		return err
	}
	for _, path := range o.Sandbox.Hide {
		if err := bind(seat.ClosedFile, path); err != nil {
			return err
		}
	}
	if o.Sandbox.OwnTmp {
		for _, path := range []string{"/tmp", "/var/tmp"} {
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if err := bind(seat.SandboxTmp, path); err != nil {
				return err
			}
		}
	}
	// This mount is a separate instance of /proc, so the machine's own /proc does not change.
	// Separate instances of /proc require Linux 5.8 or later.
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	if err := syscall.Mount("proc", "/proc", "proc", flags, "hidepid=2"); err != nil {
		return errors.New("mount /proc: " + err.Error())
	}
	return nil
}

// furnishDir sets up SandboxDir. SandboxDir is a small in-memory file system that contains the job's own files and has
// a size limit.
func furnishDir(o *seat.Order) error {
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV
	if err := syscall.Mount("ares", seat.SandboxDir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=16"); err != nil {
		return errors.New("mount " + seat.SandboxDir + ": " + err.Error())
	}
	work, tmp, err := furnishDisk(o)
	if err != nil {
		return err
	}
	for _, m := range []struct{ from, to string }{
		{work, seat.SandboxWork}, // furnishSized covers these two if their size in memory is limited
		{tmp, seat.SandboxTmp},
		{seat.ProgressFile, seat.SandboxProgress},
		{seat.CheckpointFile, seat.SandboxCheckpoint},
	} {
		if m.from == "" {
			continue
		}
		st, err := os.Stat(m.from)
		if err == nil && st.IsDir() {
			err = os.Mkdir(m.to, 0o700)
		} else if err == nil {
			err = seat.WriteFile(m.to, nil, syscall.O_CREAT, 0o600)
		}
		if err != nil {
			return err
		}
		if err := bind(m.from, m.to); err != nil {
			return err
		}
	}
	if o.JobSocket != "" {
		if err := furnishJobSocket(); err != nil {
			return err
		}
	}
	if err := mountImage(o); err != nil {
		return err
	}
	if err := errors.Join(leaveDisk(o), furnishSized(o), furnishCode(o)); err != nil {
		return err
	}
	return furnishSecrets(o)
}

// furnishJobSocket mounts the directory with the socket of the job's processes. It is a directory, because a restarted agent makes the
// socket anew, and read-only, because the agent must never find there what a job has made.
func furnishJobSocket() error {
	if err := os.Mkdir(seat.SandboxJob, 0o755); err != nil {
		return err
	}
	if err := bind(seat.JobDir, seat.SandboxJob); err != nil {
		return err
	}
	const flags = syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	if err := syscall.Mount("", seat.SandboxJob, "", flags, ""); err != nil {
		return errors.New("make " + seat.SandboxJob + " read-only: " + err.Error())
	}
	return nil
}

func bind(from, to string) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return errors.New("bind " + from + " to " + to + ": " + err.Error())
	}
	return nil
}

// dropCapabilities empties the capability bounding set. The current capabilities are lost when the process changes its
// user, and no_new_privs prevents it from regaining them. Emptying the bounding set is a second barrier. An agent in a
// container may not have permission to empty the bounding set, so errors are ignored.
func dropCapabilities() {
	for c := range uintptr(64) {
		if errors.Is(prctl(prCapbsetDrop, c), syscall.EINVAL) {
			return // the kernel knows no more capabilities
		}
	}
}

// leaveKeyring gives the thread an empty session keyring, because the agent's keyring may contain keys that the job
// could use. On a kernel without keyrings, leaveKeyring does nothing.
func leaveKeyring() {
	const join = 1 // KEYCTL_JOIN_SESSION_KEYRING
	_, _, _ = syscall.RawSyscall(syscall.SYS_KEYCTL, join, 0, 0)
}

// probeSandbox tests a sandbox for the agent, in a directory with the files that the function `furnish` mounts.
func probeSandbox() {
	o := &seat.Order{Spec: seat.Spec{Sandbox: seat.Sandbox{Private: true, OwnTmp: true}}}
	if err := furnish(o); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
}

// asUser runs a function with the file permissions of the job's user. Therefore the error can name the file that the
// user cannot access. The system call exec returns only an error number.
func (s *supervisor) asUser(do func() error) error {
	u := s.order.User
	if u == nil {
		return do()
	}
	own, err := syscall.Getgroups()
	if err != nil {
		return os.NewSyscallError("getgroups", err)
	}
	back := make([]uint32, len(own))
	for i, g := range own {
		back[i] = uint32(g)
	}
	// The agent's own groups, such as root's, may enter directories that the user may not.
	if err := setGroups(u.Groups); err != nil {
		return err
	}
	setFS(syscall.SYS_SETFSGID, u.GID)
	setFS(syscall.SYS_SETFSUID, u.UID)
	err = do()
	setFS(syscall.SYS_SETFSUID, uint32(os.Geteuid()))
	setFS(syscall.SYS_SETFSGID, uint32(os.Getegid()))
	return errors.Join(err, setGroups(back))
}

// setGroups sets the additional groups of this thread only.
func setGroups(groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	return nil
}

// setFS ignores the result of the system call, because the call returns the previous value and no error.
func setFS(call uintptr, id uint32) { _, _, _ = syscall.RawSyscall(call, uintptr(id), 0, 0) }

// setLimits sets the resource limits that the job's processes inherit. The supervisor itself stays well below these
// limits.
func setLimits(o *seat.Order) error {
	const nproc = 6 // RLIMIT_NPROC
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return os.NewSyscallError("setrlimit(RLIMIT_CORE)", err)
	}
	if !o.PidsByUser {
		return nil
	}
	// Without a cgroup controller, the process limit can only be set for the user. It then counts all processes of the user on this
	// machine.
	n := uint64(o.Limits.Pids)
	if err := syscall.Setrlimit(nproc, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return os.NewSyscallError("setrlimit(RLIMIT_NPROC)", err)
	}
	return nil
}

// The method `fork` calls ForkExec inside the v1 cgroups that limit the job. From then on, the supervisor's processor time counts toward
// the job's limit.
func (s *supervisor) fork(path string, argv []string, attr *syscall.ProcAttr) (pid int, machine, err error) {
	s.onMachine(func() { machine = s.order.Charge(&s.process.charged) })
	if machine != nil {
		return 0, machine, nil
	}
	groups := s.order.Groups
	if attr.Sys.Ptrace { // the method `enter` moves the process, which costs half as much
		groups = nil
	}
	joined := 0
	for _, g := range groups {
		if machine = g.Join(); machine != nil {
			break
		}
		joined++
	}
	if machine == nil {
		pid, err = syscall.ForkExec(path, argv, attr)
	}
	for _, g := range groups[:joined] {
		// If the supervisor cannot leave the cgroup, it continues and shares the limits of its job.
		if g.Leave() != nil {
			s.stuck.Store(true)
		}
	}
	if machine == nil && err == nil && attr.Sys.Ptrace {
		machine = s.enter(pid)
	}
	return pid, machine, err
}

// watchMemory asks the kernel to wake the loop when the job is out of memory. With cgroup version 2 the loop need not
// be woken, because the kernel kills the whole job.
func watchMemory(group string) int {
	control, err := syscall.Open(group+"/memory.oom_control", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	defer syscall.Close(control)
	fd, err := eventfd()
	if err != nil {
		return -1
	}
	line := strconv.Itoa(fd) + " " + strconv.Itoa(control)
	if err := seat.WriteFile(group+"/cgroup.event_control", []byte(line), 0, 0); err != nil {
		_ = syscall.Close(fd)
		return -1
	}
	return fd
}
