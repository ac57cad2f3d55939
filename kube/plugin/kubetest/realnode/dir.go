package realnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const dirPrefix = "realnode"

// makeDir makes the directory of a node, and locks it against removeStale until the lock is closed. Sockets may have names of
// only 107 characters, and the directories of tests have long names, so it is a short one.
func makeDir() (dir string, lock *os.File, err error) {
	if err := removeStale(); err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return "", nil, err
	}
	lock, free, err := tryLock(dir)
	if err == nil && !free {
		err = fmt.Errorf("%s is locked", dir)
	}
	return dir, lock, err
}

// removeStale removes the directories and cgroups of nodes whose test was killed. They hold images, perhaps in memory.
func removeStale() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		lock, free, err := tryLock(dir)
		if err != nil || !free {
			continue // it is in use, or just being made or removed
		}
		err = errors.Join(removeCgroup(filepath.Base(dir)), os.RemoveAll(dir), lock.Close())
		if err != nil {
			return fmt.Errorf("remove what a test that was killed left: %w", err)
		}
	}
	return nil
}

// tryLock locks a directory if no other process has locked it.
func tryLock(dir string) (lock *os.File, free bool, err error) {
	if lock, err = os.Open(dir); err != nil {
		return nil, false, err
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil, false, lock.Close()
	}
	return lock, true, nil
}
