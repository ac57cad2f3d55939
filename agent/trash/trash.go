//go:build linux

// Package trash deletes what jobs leave on a node. A job decides how its directories look: they may be nested deeper than the number of
// files that a process may open, have paths longer than the kernel accepts, or hold millions of entries. Deleting them must therefore
// never be a condition for anything else: not for the release of an allocation, and not for the start of an agent.
//
// Discard only renames a directory into the bin, which takes the same time for every directory. Run deletes the bin's content in the
// background, slowly, and continues after a restart where it stopped. It never descends: it moves a directory's subdirectories up into the
// bin instead. So it needs three open files and no path, whatever the depth is. Because a directory is renamed before it is read, a file
// system that is mounted inside a discarded directory is never entered: the kernel does not rename a mount point.
package trash

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/pause"
)

const (
	// DefaultRate is how many entries a second a Bin deletes.
	DefaultRate = 5000
	// maxNames is how many names of a directory are read at a time.
	maxNames = 256
	// maxOwed is how many paths are remembered that could not be moved into the bin. The start of the next agent finds the others.
	maxOwed = 1000
	// pauseAfter is how many entries are deleted between two pauses.
	pauseAfter = 100
	// What cannot be deleted is tried again after retryFirst, and then after twice as long each time, up to retryLast.
	retryFirst, retryLast = time.Second, time.Hour
)

// Bin is a directory whose content is deleted in the background. The methods of a Bin may be called concurrently, except that only one
// call of Run or Empty may be active.
type Bin struct {
	// Rate limits the number of entries that are deleted in one second. Set Rate and Log before the Bin is used.
	Rate int
	// Log receives the entries that cannot be deleted.
	Log *slog.Logger

	root   *os.File // the bin's directory
	prefix string   // makes the names of this process unique
	names  atomic.Uint64
	wake   chan struct{}
	pause  func(context.Context, time.Duration) bool
	spent  int // entries since the last pause

	mu   sync.Mutex
	owed map[string]struct{} // paths that Discard could not move; Run tries them again
}

// Open creates the bin's directory if it does not exist. What an earlier process left there is deleted by Run. A job that runs as the agent's
// own user can put a file or a link in the place of the directory, or take its permissions away. This must not keep an agent from
// starting, so Open removes the one and gives back the other.
func Open(dir string) (*Bin, error) {
	if st, err := os.Lstat(dir); err == nil && !st.IsDir() {
		if err = os.Remove(dir); err != nil {
			return nil, fmt.Errorf("open the directory for discarded files: %w", err)
		}
	} else if err == nil && st.Mode().Perm() != 0o700 {
		unlock(unix.AT_FDCWD, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the directory for discarded files: %w", err)
	}
	root, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory for discarded files: %w", err)
	}
	return &Bin{
		Rate: DefaultRate, Log: slog.New(slog.DiscardHandler), root: root, prefix: rand.Text()[:12] + "-",
		owed: map[string]struct{}{},
		wake: make(chan struct{}, 1), pause: pause.For,
	}, nil
}

// Close closes the bin's directory. Run must have ended.
func (b *Bin) Close() error { return b.root.Close() }

// Discard moves a file or a directory into the bin, which must be in the same file system. Discard returns no error if the path does not
// exist. After an error, for example because the disk is full, Run tries again later.
func (b *Bin) Discard(path string) error {
	err := b.discard(path)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.owed, path)
	} else if len(b.owed) < maxOwed {
		b.owed[path] = struct{}{}
		b.nudge()
	}
	return err
}

// retryOwed tries again to move what Discard could not move. It returns the first error.
func (b *Bin) retryOwed() error {
	b.mu.Lock()
	paths := slices.Sorted(maps.Keys(b.owed))
	b.mu.Unlock()
	var first error
	for _, path := range paths {
		err := b.discard(path)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		b.mu.Lock()
		delete(b.owed, path)
		b.mu.Unlock()
	}
	return first
}

func (b *Bin) discard(path string) error {
	dir, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", path, err)
	}
	defer dir.Close()
	return b.DiscardFrom(dir, filepath.Base(path))
}

// DiscardFrom moves one entry of an open directory into the bin.
func (b *Bin) DiscardFrom(dir *os.File, name string) error {
	err := b.lift(int(dir.Fd()), name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", filepath.Join(dir.Name(), name), err)
	}
	b.nudge()
	return nil
}

// The method `nudge` tells Run that there is work.
func (b *Bin) nudge() {
	select {
	case b.wake <- struct{}{}:
	default: // Run already knows
	}
}

// The method `lift` renames an entry of the directory `from` into the bin, under a name that no other entry has.
func (b *Bin) lift(from int, name string) error {
	to := b.prefix + strconv.FormatUint(b.names.Add(1), 10)
	err := unix.Renameat(from, name, int(b.root.Fd()), to)
	if errors.Is(err, unix.EACCES) { // without root, only a writable directory gets another parent
		unlock(from, name)
		err = unix.Renameat(from, name, int(b.root.Fd()), to)
	}
	if errors.Is(err, unix.EPERM) && mutable(from, name) {
		err = unix.Renameat(from, name, int(b.root.Fd()), to)
	}
	return err
}

// The function `unlock` makes a directory accessible for its owner. A job may have taken its own permissions away. The directory is changed
// through its descriptor, so a link is never followed.
func unlock(at int, name string) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the caller's next attempt reports the reason
	}
	_ = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
	_ = unix.Close(fd)
}

// Run deletes the bin's content until ctx ends. Entries that cannot be deleted stay in the bin and are tried again later.
func (b *Bin) Run(ctx context.Context) error {
	wait := retryFirst
	for {
		owed := b.retryOwed() // first, because deleting may make room for it
		err := cmp.Or(b.Empty(ctx), owed)
		var again <-chan time.Time
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			b.Log.Warn("discarded files cannot be deleted, they are tried again later", "dir", b.root.Name(), "retry_in", wait, "error", err)
			again, wait = time.After(wait), min(wait*2, retryLast)
		default:
			wait = retryFirst
		}
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		case <-again:
		}
	}
}

// Empty deletes the bin's content. It returns an error if something is left that cannot be deleted, or if ctx ends.
func (b *Bin) Empty(ctx context.Context) error {
	for {
		deleted, err := b.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case deleted == 0: // nothing was there, or nothing of it can be deleted
			return err
		}
	}
}

// The method `pass` goes through the bin once. It returns how many entries were deleted or moved up, and the first error. A directory that
// is changed while it is read may not show all of its entries, so one pass is not enough.
func (b *Bin) pass(ctx context.Context) (done int, err error) {
	dir, err := openDir(int(b.root.Fd()), ".")
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	var first error
	err = eachName(dir, func(name string) error {
		n, err := b.remove(ctx, name)
		done += n
		if err != nil && first == nil {
			first = fmt.Errorf("%s: %w", name, err)
		}
		return ctx.Err()
	})
	if first == nil {
		first = err
	}
	return done, first
}

// errAgain means that a directory still has entries after all the entries that could be read were deleted.
var errAgain = errors.New("the directory is not empty yet")

// The method `remove` deletes one entry of the bin. If the entry is a directory, its files are deleted and its subdirectories are moved up
// into the bin. The method returns how many entries it deleted or moved.
func (b *Bin) remove(ctx context.Context, name string) (done int, err error) {
	root := int(b.root.Fd())
	err = unlink(root, name)
	switch {
	case err == nil || errors.Is(err, unix.ENOENT):
		return 1, b.spend(ctx)
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		return 0, err
	}
	dir, err := openDir(root, name)
	if errors.Is(err, unix.EACCES) {
		unlock(root, name)
		dir, err = openDir(root, name)
	}
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	_ = dir.Chmod(0o700) // if this is not enough, the deletions below fail
	var first error
	err = eachName(dir, func(sub string) error {
		if err := b.removeFrom(int(dir.Fd()), sub); err != nil {
			if first == nil {
				first = err
			}
			return ctx.Err()
		}
		done++
		return b.spend(ctx)
	})
	if err := errors.Join(first, err); err != nil {
		return done, err
	}
	switch err = unix.Unlinkat(root, name, unix.AT_REMOVEDIR); {
	case err == nil:
		return done + 1, nil
	case errors.Is(err, unix.ENOTEMPTY):
		return done, errAgain
	}
	return done, err
}

// removeFrom deletes an entry of the directory `dir`, or moves it up into the bin if it is a directory with content.
func (b *Bin) removeFrom(dir int, name string) error {
	err := unlink(dir, name)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		err = b.lift(dir, name)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// The function `unlink` deletes a file or an empty directory, also one that was protected with a flag of its file system.
func unlink(dir int, name string) error {
	try := func() error {
		err := unix.Unlinkat(dir, name, 0)
		if errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		return err
	}
	err := try()
	if errors.Is(err, unix.EPERM) && mutable(dir, name) {
		err = try()
	}
	return err
}

// The method `spend` counts one deleted entry and pauses often enough to keep the rate.
func (b *Bin) spend(ctx context.Context) error {
	if b.spent++; b.spent < pauseAfter {
		return ctx.Err()
	}
	b.spent = 0
	b.pause(ctx, pauseAfter*time.Second/time.Duration(max(b.Rate, 1)))
	return ctx.Err()
}

// openDir opens a directory for reading. A link is not followed.
func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// eachName calls the function `do` with each name in a directory, until the function returns an error. Only a part of the names is in
// memory at a time.
func eachName(dir *os.File, do func(name string) error) error {
	for {
		names, err := dir.Readdirnames(maxNames)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
