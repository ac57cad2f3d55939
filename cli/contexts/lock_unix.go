//go:build unix

package contexts

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The function `lock` waits until no other process holds the lock file, and takes it. The system releases the lock when
// the process ends, however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close() // the error of the lock is the one to report
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

// checkMode rejects a configuration that other users can read, because it may contain tokens.
func checkMode(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o, so other users can read your tokens: run: chmod 600 %s", path, mode, path)
	}
	return nil
}
