//go:build linux

package trash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestWhatAJobLeaves discards trees that jobs made to be hard to delete. All of them must be gone afterwards, and a file outside of them
// must be untouched, with its permissions.
func TestWhatAJobLeaves(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, tree, outside string) error{
		"names": func(_ *testing.T, tree, _ string) error {
			for _, name := range []string{"a\nb", "\x1b[2J", "-rf", "...", strings.Repeat("n", 255), "\xff\xfe", "*", "$(reboot)"} {
				if err := os.MkdirAll(filepath.Join(tree, name, name), 0o700); err != nil {
					return err
				}
			}
			return nil
		},
		"sockets, FIFOs and devices": func(t *testing.T, tree, _ string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = unix.Close(fd) })
			at, err := os.Open(tree) // the path of a socket may have 108 bytes only
			if err != nil {
				return err
			}
			defer at.Close()
			if err := unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/s", at.Fd())}); err != nil {
				return err
			}
			_ = unix.Mknod(filepath.Join(tree, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) // only root may
			return unix.Mkfifo(filepath.Join(tree, "fifo"), 0o600)
		},
		"hard links": func(_ *testing.T, tree, outside string) error {
			for i := range 3000 {
				if err := os.Link(filepath.Join(outside, "file"), fmt.Sprintf("%s/%d", tree, i)); err != nil {
					return err
				}
			}
			return nil
		},
		"links to the outside": func(_ *testing.T, tree, outside string) error {
			if err := os.Mkdir(filepath.Join(tree, "d"), 0o700); err != nil {
				return err
			}
			for link, to := range map[string]string{"d/dir": outside, "file": outside + "/file", "loop": "loop", "d/up": "../..", "root": "/"} {
				if err := os.Symlink(to, filepath.Join(tree, link)); err != nil {
					return err
				}
			}
			return nil
		},
		"closed directories": func(_ *testing.T, tree, _ string) error {
			for _, mode := range []os.FileMode{0, 0o100, 0o400, 0o500} {
				dir := fmt.Sprintf("%s/%o/below/below", tree, mode)
				if err := os.MkdirAll(dir, 0o700); err != nil {
					return err
				}
				for _, d := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
					if err := os.Chmod(d, mode); err != nil {
						return err
					}
				}
			}
			return os.Chmod(tree, 0)
		},
		"a hole of a terabyte": func(_ *testing.T, tree, _ string) error {
			if err := os.WriteFile(filepath.Join(tree, "large"), nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(filepath.Join(tree, "large"), 1<<40)
		},
		"immutable files": func(t *testing.T, tree, _ string) error {
			t.Cleanup(func() { _ = exec.Command("chattr", "-R", "-ia", filepath.Dir(tree)).Run() }) // a failing test leaves none either
			if err := os.MkdirAll(filepath.Join(tree, "d", "below"), 0o700); err != nil {
				return err
			}
			for _, f := range []string{"file", "d/file", "d/below/file", "d/below", "d", ""} {
				path := filepath.Join(tree, f)
				if strings.HasSuffix(f, "file") {
					if err := os.WriteFile(path, nil, 0o600); err != nil {
						return err
					}
				}
				flag := "+i"
				if f == "d/file" {
					flag = "+a"
				}
				if out, err := exec.Command("chattr", flag, path).CombinedOutput(); err != nil {
					t.Skipf("files cannot be made immutable here: %v %s", err, out)
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir)
			tree, outside := filepath.Join(dir, "tree"), filepath.Join(dir, "outside")
			for _, d := range []string{tree, outside} {
				if err := os.Mkdir(d, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(outside, "file")
			if err := os.WriteFile(file, []byte("kept"), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := spoil(t, tree, outside); err != nil {
				t.Fatal(err)
			}
			if err := b.Discard(tree); err != nil {
				t.Error(err)
			}
			if err := b.Empty(t.Context()); err != nil {
				t.Error(err)
			}
			if left := b.list(t); len(left) > 0 {
				t.Errorf("the bin still has %q", left)
			}
			got, err := os.ReadFile(file)
			st, bad := os.Stat(outside)
			if string(got) != "kept" || err != nil || bad != nil || st.Mode().Perm() != 0o750 {
				t.Errorf("outside: %q %v, %v %v", got, err, st, bad)
			}
		})
	}
}

// TestADirectoryBecomesALink replaces directories with links to a directory outside, as fast as possible, while they are deleted. A process
// that a machine without cgroups did not find could do this.
func TestADirectoryBecomesALink(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	outside := filepath.Join(dir, "outside")
	if err := os.MkdirAll(filepath.Join(outside, "below"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	for i := range 500 {
		if err := os.MkdirAll(fmt.Sprintf("%s/%d/d/e", tree, i), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("%s/%d/d/e/file", tree, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open, err := unix.Open(tree, unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // stays valid after the rename
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(open) }()
	var stop sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	stop.Go(func() {
		for i := 0; ctx.Err() == nil; i = (i + 1) % 500 {
			name, aside := fmt.Sprintf("%d", i), fmt.Sprintf("aside-%d", i)
			_ = unix.Renameat(open, name, open, aside)
			_ = unix.Symlinkat(outside, open, name)
			_ = unix.Symlinkat(outside, open, name+"/d")
		}
	})
	if err := b.Discard(tree); err != nil {
		t.Error(err)
	}
	for range 20 { // new links may stop a pass from emptying the bin
		_ = b.Empty(t.Context())
	}
	cancel()
	stop.Wait()
	if err := b.Empty(t.Context()); err != nil {
		t.Error(err)
	}
	if left := b.list(t); len(left) > 0 {
		t.Errorf("the bin still has %q", left)
	}
	for _, path := range []string{outside + "/file", outside + "/below"} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("a link was followed: %v", err)
		}
	}
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o750 {
		t.Errorf("the permissions of the outside: %v %v", st, err)
	}
}

// TestTheBinsPlaceIsTaken puts something else at the place of the bin. The bin must be opened nevertheless, and must not be used through a link.
func TestTheBinsPlaceIsTaken(t *testing.T) {
	for name, take := range map[string]func(dir, outside string) error{
		"a file":             func(dir, _ string) error { return os.WriteFile(dir, nil, 0o600) },
		"a link":             func(dir, outside string) error { return os.Symlink(outside, dir) },
		"a broken link":      func(dir, _ string) error { return os.Symlink("nowhere", dir) },
		"a FIFO":             func(dir, _ string) error { return syscall.Mkfifo(dir, 0o600) },
		"a closed directory": func(dir, _ string) error { return os.Mkdir(dir, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			outside, tree := filepath.Join(dir, "outside"), filepath.Join(dir, "tree")
			for _, d := range []string{outside, tree} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := take(filepath.Join(dir, "trash"), outside); err != nil {
				t.Fatal(err)
			}
			b := open(t, dir)
			if err := b.Discard(tree); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(outside); len(left) > 0 || err != nil {
				t.Errorf("the bin is outside: %v %v", left, err)
			}
			if st, err := os.Lstat(filepath.Join(dir, "trash")); err != nil || st.Mode() != os.ModeDir|0o700 {
				t.Errorf("the bin is %v, %v", st, err)
			}
			if err := b.Empty(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAFullDiskIsTriedAgain discards a directory that cannot be moved at first, as on a full disk: something is mounted on it. Once it can be moved, a waiting Run must
// delete it without a restart.
func TestAFullDiskIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", tree, "tmpfs", 0, ""); err != nil {
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(tree, unix.MNT_DETACH) })
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(filepath.Join(dir, "trash"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Discard(tree); err == nil {
			t.Error("a mount point was moved")
		}
		if err := unix.Unmount(tree, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		<-time.After(2 * retryFirst)
		synctest.Wait()
		if _, err := os.Lstat(tree); !os.IsNotExist(err) {
			t.Errorf("the directory is still at its place: %v", err)
		}
		if left := b.list(t); len(left) > 0 {
			t.Errorf("the bin still has %q", left)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
