//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// What follows changes the main thread alone: a mount namespace, the capabilities and the
// cgroups of version 1 belong to a thread on Linux, and a child has those of the thread that
// forks it. The loop and the pump, on other threads, keep the machine as it is.

const (
	prCapbsetRead = 23
	prCapbsetDrop = 24
)

// apart puts the main thread where the job shall be. On an error nothing has been started,
// and the fault is the machine's.
func (s *supervisor) apart() error {
	o := &s.order
	if o.User == nil {
		return nil // root, or the agent's own user: it could undo what follows
	}
	if o.Room.Private {
		if err := furnish(o); err != nil {
			return err
		}
	}
	leaveKeyring()
	dropCapabilities()
	return nil
}

// furnish makes the job's view of the machine. The order matters: what is bound may lie
// below /tmp, and is found only before that is covered.
func furnish(o *seat.Order) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare(CLONE_NEWNS)", err)
	}
	// What the machine mounts later (an automounter's disk) comes in; nothing goes out.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return errors.New("make the mounts the job's own: " + err.Error())
	}
	if err := furnishDir(o); err != nil {
		return err
	}
	for _, path := range o.Room.Hide {
		if err := bind(seat.ClosedFile, path); err != nil {
			return err
		}
	}
	if o.Room.OwnTmp {
		for _, path := range []string{"/tmp", "/var/tmp"} {
			if _, err := os.Stat(path); err != nil {
				continue
			}
			if err := bind(seat.RoomTmp, path); err != nil {
				return err
			}
		}
	}
	// An instance of its own: on the machine's /proc nothing changes (Linux 5.8).
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	if err := syscall.Mount("proc", "/proc", "proc", flags, "hidepid=2"); err != nil {
		return errors.New("mount /proc: " + err.Error())
	}
	return nil
}

// furnishDir makes RoomDir: a small file system in memory that nobody can fill, and in it
// the job's own files.
func furnishDir(o *seat.Order) error {
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV
	if err := syscall.Mount("ares", seat.RoomDir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=16"); err != nil {
		return errors.New("mount " + seat.RoomDir + ": " + err.Error())
	}
	for _, m := range []struct{ from, to string }{
		{o.Room.Scratch, seat.RoomWork},
		{seat.TmpDir, seat.RoomTmp},
		{seat.ProgressFile, seat.RoomProgress},
		{seat.CheckpointFile, seat.RoomCheckpoint},
	} {
		if m.from == "" {
			continue
		}
		st, err := os.Stat(m.from)
		if err == nil && st.IsDir() {
			err = os.Mkdir(m.to, 0o700)
		} else if err == nil {
			err = os.WriteFile(m.to, nil, 0o600)
		}
		if err != nil {
			return err
		}
		if err := bind(m.from, m.to); err != nil {
			return err
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return errors.New("bind " + from + " to " + to + ": " + err.Error())
	}
	return nil
}

// dropCapabilities takes all from the set that bounds what a program can gain. Those in
// force go with the change of the user, and no_new_privs brings none back: this is a second
// lock, which an agent in a container may not be allowed to close.
func dropCapabilities() {
	for c := range uintptr(64) {
		if prctl(prCapbsetRead, c) != nil {
			return // the kernel knows no more
		}
		_ = prctl(prCapbsetDrop, c)
	}
}

// leaveKeyring gives the thread an empty session keyring: the agent's may hold keys, and
// whoever has it may use them. A kernel without keyrings has none to leave.
func leaveKeyring() {
	const join = 1 // KEYCTL_JOIN_SESSION_KEYRING
	_, _, _ = syscall.RawSyscall(syscall.SYS_KEYCTL, join, 0, 0)
}

// probeRoom is for the agent, in a directory with the files that furnish binds.
func probeRoom() {
	o := &seat.Order{Spec: seat.Spec{Room: seat.Room{Private: true, OwnTmp: true}}}
	if err := furnish(o); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
}

// asUser does something with the job's right to files, so that what it may not reach is
// named before exec, which tells one number for all.
func (s *supervisor) asUser(do func() error) error {
	u := s.order.User
	if u == nil {
		return do()
	}
	setFS(syscall.SYS_SETFSGID, u.GID)
	setFS(syscall.SYS_SETFSUID, u.UID)
	err := do()
	setFS(syscall.SYS_SETFSUID, uint32(os.Geteuid()))
	setFS(syscall.SYS_SETFSGID, uint32(os.Getegid()))
	return err
}

// setFS cannot fail for root; the calls return what was, not an error.
func setFS(call uintptr, id uint32) { _, _, _ = syscall.RawSyscall(call, uintptr(id), 0, 0) }

// setLimits are those that a process has of the kernel, and its children with it. The
// supervisor lives well within them.
func setLimits(o *seat.Order) error {
	const nproc = 6 // RLIMIT_NPROC
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return os.NewSyscallError("setrlimit(RLIMIT_CORE)", err)
	}
	if !o.PidsByUser {
		return nil
	}
	// Without a controller: all processes of this user together, on this machine.
	n := uint64(o.Limits.Pids)
	if err := syscall.Setrlimit(nproc, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
		return os.NewSyscallError("setrlimit(RLIMIT_NPROC)", err)
	}
	return nil
}

// fork is ForkExec out of the cgroups of version 1 that limit the job.
func (s *supervisor) fork(path string, attr *syscall.ProcAttr) (pid int, machine, err error) {
	joined := 0
	for _, g := range s.order.Groups {
		if machine = g.Join(); machine != nil {
			break
		}
		joined++
	}
	if machine == nil {
		pid, err = syscall.ForkExec(path, s.order.Argv, attr)
	}
	for _, g := range s.order.Groups[:joined] {
		// Should that fail, the supervisor is limited with its job, and lives on.
		_ = g.Leave()
	}
	return pid, machine, err
}

// watchMemory asks the kernel to wake the loop when the job is out of memory. Version 2
// needs no asking: there the kernel kills the whole job.
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
	if err := os.WriteFile(group+"/cgroup.event_control", []byte(line), 0); err != nil {
		_ = syscall.Close(fd)
		return -1
	}
	return fd
}
