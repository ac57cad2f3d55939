//go:build linux

package run

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/pause"
)

// batchTime is how long a follower lets output collect after it was woken by the last one. So the echo of a key comes at once, and a job
// that prints all the time wakes its followers 100 times a second at most.
const batchTime = 10 * time.Millisecond

// followPause is the longest time after which a follower checks for more output.
const followPause = 100 * time.Millisecond

// maxWatches is the number of followers of this node that the kernel wakes. By default, all programs of one user, such as root, share 128
// instances of inotify.
const maxWatches = 16

// A follower is woken by the kernel when something in the directory of a log changes. Beyond maxWatches, and where inotify does not work, it
// checks every followPause.
type follower struct {
	watches *atomic.Int32 // those of the Runner
	file    *os.File      // nil before the first wait, and without inotify
	tried   bool
	last    time.Time // when it was woken
}

// Watch implements joblog.Waiter: it lets the kernel note changes from now on.
func (l *logFiles) Watch() {
	f := &l.follow
	if f.tried {
		return
	}
	f.tried = true
	if f.watches.Add(1) > maxWatches {
		f.watches.Add(-1)
		return
	}
	if f.file = l.openWatch(); f.file == nil {
		f.watches.Add(-1)
	}
}

// openWatch returns nil if inotify does not work.
func (l *logFiles) openWatch() *os.File {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	dir, err := l.root.Open(".")
	if err == nil {
		// The path through the descriptor stays valid when Forget moves the directory.
		_, err = unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE)
		_ = dir.Close()
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "inotify")
}

// Wait implements joblog.Waiter.
func (l *logFiles) Wait(ctx context.Context) error {
	f := &l.follow
	if f.file == nil {
		pause.For(ctx, followPause)
		return ctx.Err()
	}
	if left := time.Until(f.last.Add(batchTime)); left > 0 && !pause.For(ctx, left) {
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { _ = f.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := f.file.SetReadDeadline(time.Now().Add(followPause)); err != nil {
		return err
	}
	if ctx.Err() != nil { // the deadline may have replaced that of AfterFunc
		return ctx.Err()
	}
	var events [4 << 10]byte
	_, _ = f.file.Read(events[:]) // an error means that nothing has changed
	f.last = time.Now()
	return ctx.Err()
}

func (f *follower) close() error {
	if f.file == nil {
		return nil
	}
	f.watches.Add(-1)
	return f.file.Close()
}
