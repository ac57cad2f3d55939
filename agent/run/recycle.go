//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// On some file systems a new file costs more, the more files were deleted just before: ext4 does not use the inode of a deleted file for
// five seconds, and looks at each of them in turn. On a node that runs many short jobs, that was most of the agent's processor time. So the
// files of an ended seat that only Ares could open are emptied and used again. A file to which a job had access is never used again: the job
// may have passed it, open, to a process that outlives the job.

// recycled lists the names of the files that are used again. A job cannot open them, regardless of its user: only root, or the agent's own
// user, can.
var recycled = []string{seat.SpecFile, seat.LockFile, seat.ResultFile}

// maxRecycled is the number of files that wait to be used again.
const maxRecycled = 64

// A `recycler` is a directory with empty files.
type recycler struct {
	dir string

	mu   sync.Mutex
	free []string // their paths
	last int      // number in the name of the newest one
}

// open deletes what a previous agent left, and creates the directory.
func (c *recycler) open(dir string) error {
	c.dir = dir
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

// The method `put` empties a file of an ended seat and keeps it. It returns false if the file has to be deleted instead.
func (c *recycler) put(dir *os.Root, path, name string) bool {
	f, err := dir.OpenFile(name, os.O_WRONLY|openSafe, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var st syscall.Stat_t
	if syscall.Fstat(int(f.Fd()), &st) != nil || st.Mode != syscall.S_IFREG|0o600 || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return false
	}
	if locked, err := seat.Locked(f); err != nil || locked {
		return false
	}
	to := c.newPath()
	if to == "" || f.Truncate(0) != nil || os.Rename(filepath.Join(path, name), to) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, to)
	return true
}

// newPath returns the path for another file, or "" if there are enough of them.
func (c *recycler) newPath() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) >= maxRecycled {
		return ""
	}
	c.last++
	return c.dir + "/" + strconv.Itoa(c.last)
}

// The method `take` returns the path of an empty file, or "" if there is none.
func (c *recycler) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.free) - 1
	if n < 0 {
		return ""
	}
	path := c.free[n]
	c.free = c.free[:n]
	return path
}

// The method `move` gives a seat an empty file under the given path. If there is none, the seat will create one.
func (c *recycler) move(path string) {
	if from := c.take(); from != "" && os.Rename(from, path) != nil {
		_ = os.Remove(from)
	}
}
