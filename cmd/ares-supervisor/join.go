//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A command beside a job in an image is forked by the job's thread, as beside other jobs. Before the first one, the thread joins the
// namespaces of the container, and takes on the rest of the job's isolation. So no program of Ares runs in the container, a command has the
// job's isolation from its first instant on, and nothing is left that the job's processes could take over:
//
//   - The namespaces are opened before the first instruction of the image. Later, the container's first process could be in others, of
//     its own.
//   - The forked process has no file of the machine open that survives exec, and its root and working directory are in the container.
//   - It shares the supervisor's memory until exec. The kernel forbids others to trace such a process, and to open its files in /proc, from
//     the moment on at which it changes its user.
//
// The thread cannot leave the container again. What it does on the machine's file systems, another thread does for it.

// namespaceNames lists the namespaces of a container, as in /proc/PID/ns. A container has no user namespace of its own, except
// with Container.Root.
var namespaceNames = [...]string{"cgroup", "ipc", "uts", "net", "pid", "mnt"}

// membership says whether the job's thread has joined the container, which it can do only once.
type membership struct {
	namespaces [len(namespaceNames)]int // open files; 0 for those that the kernel does not have
	user       int                      // the open user namespace of a job with Container.Root; a thread of a Go program cannot join it
	isJoined   bool
	failed     error
}

// openNamespaces opens the namespaces of a container whose first process is `pid` and waits for the runtime's start.
func (m *membership) openNamespaces(pid int) error {
	for i, name := range namespaceNames {
		path := "/proc/" + strconv.Itoa(pid) + "/ns/" + name
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.ENOENT {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		m.namespaces[i] = fd
	}
	return nil
}

// joinContainer makes the job's thread a member of the job's container, if the job has one.
func (s *supervisor) joinContainer() error {
	if s.order.Container.Runtime == "" {
		return nil
	}
	if m := &s.member; !m.isJoined {
		m.isJoined = true
		m.failed = s.enterContainer()
	}
	return s.member.failed
}

func (s *supervisor) enterContainer() error {
	if auditArch == 0 {
		return errors.New("commands in images are not supported on " + runtime.GOARCH)
	}
	for i, fd := range s.member.namespaces {
		if fd == 0 {
			continue
		}
		if _, _, errno := syscall.RawSyscall(sysSetns, uintptr(fd), 0, 0); errno != 0 {
			return errors.New("join the container's " + namespaceNames[i] + " namespace: " + errno.Error())
		}
		_ = syscall.Close(fd)
	}
	const umask = 0o022 // that of the container, which the runtime has set
	syscall.Umask(umask)
	if err := noNewPrivs(); err != nil {
		return err
	}
	if s.order.Container.Root { // a command restricts itself, because it enters the user namespace first
		leaveKeyring()
		return nil
	}
	return s.restrict()
}

// onMachine calls a function where the machine's file systems are visible, whatever the calling thread sees.
func (s *supervisor) onMachine(do func()) {
	if s.member.isJoined {
		onMachine(do)
		return
	}
	do()
}

// isContainerEnding reports whether the first process of the job's container is ending. The kernel ends the commands beside it first, so this
// tells a command that ended with its job from one that was killed.
func (s *supervisor) isContainerEnding() bool {
	if s.order.Container.Runtime == "" || s.ended {
		return false
	}
	b, err := seat.ReadFile("/proc/" + strconv.Itoa(s.start.pid) + "/stat")
	if err != nil {
		return true
	}
	const flags, exiting = 6, 4 // the field after the process name, and PF_EXITING
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) <= flags {
		return false
	}
	word, _ := strconv.ParseUint(fields[flags], 10, 64)
	return word&exiting != 0
}

// describeBeside completes the reason why a command could not be started.
func (s *supervisor) describeBeside(reason string) string {
	if s.order.Container.Runtime == "" {
		return s.apartToo(reason)
	}
	return strings.TrimSuffix(reason, installHint) + ", in the job's image: use a program that the image has"
}

// noteContainer records what the supervisor needs for commands beside the container's first process. It runs before the image does.
func (s *supervisor) noteContainer(pid int) error {
	s.hasSecretFiles = hasSecretFiles(&s.order)
	return s.member.openNamespaces(pid)
}

// credential returns the user of a process of the job, with more groups that the container's configuration gives it.
func credential(o *seat.Order, groups []uint32) *syscall.Credential {
	all := append(append([]uint32(nil), o.User.Groups...), groups...)
	return &syscall.Credential{Uid: o.User.UID, Gid: o.User.GID, Groups: all}
}
