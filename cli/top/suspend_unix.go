//go:build unix

package top

import "golang.org/x/sys/unix"

// canSuspend reports whether a shell with job control started this program. Without one, the process group is that of
// the session's first process, as in "ssh -t HOST ares top". The system then ignores the request to stop, and nothing
// would continue the program.
func canSuspend() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}
