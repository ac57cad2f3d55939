//go:build linux

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// sharedShmDir has one directory for each attempt whose ranks share a /dev/shm. A file system with a fixed size is mounted there, until
// the last rank of the attempt is forgotten.
const sharedShmDir = "shm"

func (r *Runner) sharedShm(key Key) string {
	return filepath.Join(r.dir, sharedShmDir, key.Job+"."+strconv.FormatInt(key.Fence, 10))
}

// mountShm mounts the /dev/shm that the ranks of an attempt share, if no other rank has done so.
func (r *Runner) mountShm(o *seat.Order) error {
	if o.Sandbox.Shm == "" {
		return nil
	}
	r.shm.Lock()
	defer r.shm.Unlock()
	if err := os.MkdirAll(o.Sandbox.Shm, 0o700); err != nil {
		return err
	}
	if mounted, err := isMountPoint(o.Sandbox.Shm); err != nil || mounted {
		return err
	}
	if err := syscall.Mount("ares", o.Sandbox.Shm, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, seat.TmpfsOptions(o.Sandbox.ShmMB)+",mode=1777"); err != nil {
		return fmt.Errorf("mount a /dev/shm for the ranks of job %s: %w", o.Job, err)
	}
	return nil
}

// isMountPoint reports whether a file system is mounted at the directory. The directory above has another device then.
func isMountPoint(dir string) (bool, error) {
	var in, above syscall.Stat_t
	err := errors.Join(syscall.Stat(dir, &in), syscall.Stat(filepath.Dir(dir), &above))
	return in.Dev != above.Dev, err
}

// unmountShm removes the shared /dev/shm of every attempt that has no rank on this node. Processes that still use one keep it until they
// end. An error is ignored, because the next call tries again.
func (r *Runner) unmountShm() {
	r.shm.Lock()
	defer r.shm.Unlock()
	mounts, err := fs.ReadDir(r.root.FS(), sharedShmDir)
	if err != nil || len(mounts) == 0 {
		return
	}
	seats, err := fs.ReadDir(r.root.FS(), seatsDir)
	if err != nil {
		return
	}
	used := map[string]bool{}
	for _, e := range seats {
		if key, ok := seat.ParseKey(e.Name()); ok {
			used[r.sharedShm(key)] = true
		}
	}
	for _, e := range mounts {
		if path := filepath.Join(r.dir, sharedShmDir, e.Name()); !used[path] {
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
			_ = os.Remove(path)
		}
	}
}
