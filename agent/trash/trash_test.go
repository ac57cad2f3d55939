//go:build linux

package trash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The function `nest` makes a chain of directories below `dir`, each with a file in it.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	name := strings.Repeat("d", 60)
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < depth && err == nil; i++ {
		var file, next int
		if file, err = unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err != nil {
			break
		}
		_ = unix.Close(file)
		if err = unix.Mkdirat(fd, name, 0o700); err != nil {
			break
		}
		next, err = unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
		fd = next
	}
	_ = unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
}

// fewFiles limits how many files this process may open until the test ends.
func fewFiles(t *testing.T, n uint64) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) })
}

func open(t *testing.T, dir string) *Bin {
	t.Helper()
	b, err := Open(filepath.Join(dir, "trash"))
	if err != nil {
		t.Fatal(err)
	}
	b.pause = func(context.Context, time.Duration) bool { return true }
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (b *Bin) list(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(b.root.Name())
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// TestATreeOfAnyDepthIsDeleted discards a tree that is nested deeper than the number of files that may be open, and whose paths are longer
// than the kernel accepts.
func TestATreeOfAnyDepthIsDeleted(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	tree := filepath.Join(dir, "tree")
	for _, d := range []string{tree, tree + "/wide"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 600 {
		if err := os.MkdirAll(fmt.Sprintf("%s/wide/%d/inside", tree, i), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	nest(t, tree, 6000)
	fewFiles(t, 64)
	if err := b.Discard(tree); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(tree); !os.IsNotExist(err) {
		t.Errorf("the tree is still at its place: %v", err)
	}
	if err := b.Empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := b.list(t); len(left) > 0 {
		t.Errorf("the bin still has %q", left)
	}
}

// TestRunContinuesAfterARestart stops the deletion in the middle. The next process completes it.
func TestRunContinuesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	nest(t, tree, 2000)
	ctx, stop := context.WithCancel(t.Context())
	b.pause = func(context.Context, time.Duration) bool { stop(); return false }
	if err := b.Discard(tree); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if len(b.list(t)) == 0 {
		t.Fatal("the deletion was not stopped in the middle")
	}
	next := open(t, dir)
	if err := next.Empty(t.Context()); err != nil {
		t.Error(err)
	}
	if left := next.list(t); len(left) > 0 {
		t.Errorf("the next process left %q", left)
	}
}

// TestRunDeletesWhatIsDiscardedLater checks that a waiting Run notices a Discard.
func TestRunDeletesWhatIsDiscardedLater(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	ctx, stop := context.WithCancel(t.Context())
	deleted := make(chan struct{})
	once := sync.OnceFunc(func() { close(deleted) })
	b.pause = func(context.Context, time.Duration) bool { once(); return true }
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	defer wg.Wait()
	defer stop()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	nest(t, tree, pauseAfter)
	if err := b.Discard(tree); err != nil {
		t.Fatal(err)
	}
	<-deleted
}

// TestDeletionKeepsItsRate adds up the pauses: a disk that jobs use must not be busy with deleting.
func TestDeletionKeepsItsRate(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	var paused time.Duration
	b.Rate, b.pause = 100, func(_ context.Context, d time.Duration) bool { paused += d; return true }
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Discard(tree); err != nil {
		t.Fatal(err)
	}
	if err := b.Empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if paused < 9*time.Second || paused > 12*time.Second {
		t.Errorf("1,000 entries at 100 a second: pauses of %s", paused)
	}
}

// TestLinksAreNotFollowed discards links to a file and to a directory. What the links point to must stay.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	kept := filepath.Join(dir, "kept")
	tree := filepath.Join(dir, "tree")
	for _, d := range []string{kept, tree} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(kept, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"to-dir": kept, "to-file": filepath.Join(kept, "file"), "up": ".."} {
		if err := os.Symlink(to, filepath.Join(tree, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Discard(tree); err != nil {
		t.Fatal(err)
	}
	if err := b.Empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(kept, "file")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

// TestNothingToDiscard checks that a path that does not exist is no error.
func TestNothingToDiscard(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	for _, path := range []string{"none", "none/below"} {
		if err := b.Discard(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatCannotBeDeletedIsReported checks that a bin with an entry that stays ends its pass with an error, and deletes the other entries.
func TestWhatCannotBeDeletedIsReported(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	for _, name := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "below"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", filepath.Join(dir, "b", "below"), "tmpfs", 0, ""); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	moved := ""
	t.Cleanup(func() { _ = unix.Unmount(moved, unix.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(dir, "b", "below", "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := b.Discard(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Empty(t.Context()); err == nil {
		t.Error("a mounted file system was deleted or forgotten")
	}
	left := b.list(t)
	if len(left) != 1 {
		t.Fatalf("left are %q, want only the one with the mounted file system", left)
	}
	moved = filepath.Join(b.root.Name(), left[0], "below")
	if _, err := os.Stat(filepath.Join(moved, "precious")); err != nil {
		t.Errorf("the mounted file system was entered: %v", err)
	}
}
