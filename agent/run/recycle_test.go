//go:build linux

package run

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(path, ": ", err)
	}
	return st.Ino
}

// TestRecycledFiles checks that the files which only Ares could open are used by the next seat, empty, and that the others are not.
func TestRecycledFiles(t *testing.T) {
	w := newWorld(t)
	path := func(n int, name string) string { return filepath.Join(w.dir, seatPath(rank(n, "").Key, name)) }
	first := rank(0, "echo output")
	first.Env = append(first.Env, "TOKEN=hidden")
	p := w.start(first)
	w.want(p, Exited, 0)
	ours, job := map[uint64]bool{}, map[uint64]bool{}
	for _, name := range recycled {
		ours[inode(t, path(0, name))] = true
	}
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile, seat.LogName(0)} {
		job[inode(t, path(0, name))] = true
	}
	// While the job's file exists, no new file can have its inode by chance.
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile} {
		if err := os.Link(path(0, name), filepath.Join(w.dir, "held-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Forget(p.Key()); err != nil {
		t.Fatal(err)
	}
	if n := len(w.recycler.free); n != len(recycled) {
		t.Errorf("%d files are kept, want %d", n, len(recycled))
	}
	for _, file := range w.recycler.free {
		if st, err := os.Stat(file); err != nil || st.Size() != 0 {
			t.Errorf("%s is not empty: %v", file, err)
		}
	}
	p = w.start(rank(1, "true"))
	w.want(p, Exited, 0)
	for _, name := range recycled {
		if ino := inode(t, path(1, name)); !ours[ino] {
			t.Errorf("%s is a new file", name)
		}
	}
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile, seat.LogName(0)} {
		if ino := inode(t, path(1, name)); ours[ino] || job[ino] {
			t.Errorf("%s was a file of another seat", name)
		}
	}
}

// TestNotRecycled lists the files that are deleted instead.
func TestNotRecycled(t *testing.T) {
	dir := t.TempDir()
	var c recycler
	if err := c.open(filepath.Join(dir, "empty")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("content"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("good", 0o600)
	file("open-to-all", 0o644)
	if err := os.Link(file("linked", 0o600), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file("aim", 0o600), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	locked, err := os.OpenFile(file("locked", 0o600), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	if err := seat.Lock(locked); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"open-to-all", "linked", "link", "pipe", "locked", "missing"} {
		if c.put(root, dir, name) {
			t.Errorf("%s is used again", name)
		}
	}
	if !c.put(root, dir, "good") || len(c.free) != 1 {
		t.Error("a file is not used again")
	}
	for range 2 * maxRecycled {
		file("good", 0o600)
		c.put(root, dir, "good")
	}
	if len(c.free) != maxRecycled {
		t.Errorf("%d files are kept", len(c.free))
	}
}
