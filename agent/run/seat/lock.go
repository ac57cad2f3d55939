//go:build linux

package seat

import (
	"os"
	"syscall"
)

// The lock is an open-file-description lock: the agent takes it, the supervisor inherits
// the description, the kernel drops it when the supervisor is gone. So "is it alive" has
// an answer that no reused pid can falsify, and asking does not take the lock.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

// Lock takes the lock; it fails if another description holds it.
func Lock(f *os.File) error {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	return syscall.FcntlFlock(f.Fd(), ofdSetLock, &l)
}

// Locked asks whether another description holds the lock.
func Locked(f *os.File) (bool, error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), ofdGetLock, &l); err != nil {
		return false, err
	}
	return l.Type != syscall.F_UNLCK, nil
}
