//go:build linux

package seat

import (
	"os"
	"syscall"
)

// The lock of a supervisor is an open-file-description lock. The agent takes the lock, the supervisor inherits the file
// description, and the kernel releases the lock when the supervisor is gone. Because of the lock, a reused PID cannot make a dead
// supervisor look alive. The function Locked tests the lock without taking it.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

// Lock takes the lock. Lock fails if another file description holds the lock.
func Lock(f *os.File) error {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	return syscall.FcntlFlock(f.Fd(), ofdSetLock, &l)
}

// Locked returns true if another file description holds the lock.
func Locked(f *os.File) (bool, error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), ofdGetLock, &l); err != nil {
		return false, err
	}
	return l.Type != syscall.F_UNLCK, nil
}
