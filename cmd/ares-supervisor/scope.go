//go:build linux

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// These are the numbers that the kernel defines for Landlock, the same for every architecture.
const (
	sysLandlockCreate   = 444
	sysLandlockRestrict = 446
	landlockVersion     = 1 // flag of create: return the version instead
	scopeVersion        = 6 // the first version with scopes, of Linux 6.12
	scopeSockets        = 1 // abstract sockets
	scopeSignals        = 2
)

// landlockAttr is the kernel's struct landlock_ruleset_attr. The scopes restrict processes, and nothing else is restricted.
type landlockAttr struct{ files, network, scopes uint64 }

// enterScope puts this thread, and the processes that it forks, into a Landlock domain of their own. Processes of the domain can send
// signals only to each other, connect only to abstract sockets of each other, and trace only each other. The kernel's checks of users do
// not do that: a tenant's jobs have the same user, and abstract sockets have no owner. The other threads of the supervisor are not in the
// domain, so they can still end the job. Where the kernel has no scopes, the function does nothing. The thread must have no_new_privs.
func enterScope() error {
	version, _, errno := syscall.RawSyscall(sysLandlockCreate, 0, 0, landlockVersion)
	if errno != 0 || version < scopeVersion {
		return nil
	}
	attr := landlockAttr{scopes: scopeSockets | scopeSignals}
	fd, _, errno := syscall.RawSyscall(sysLandlockCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer syscall.Close(int(fd))
	if _, _, errno = syscall.RawSyscall(sysLandlockRestrict, fd, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}
