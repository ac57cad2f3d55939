package bucket_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/objects/bucket"
)

// TestWriteOnAFullDisk replaces an object when the disk has no room for the new one. The old one must stay whole, and nothing else.
func TestWriteOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no mounts here: " + err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	b := open(t, bucket.InDir(dir))
	if err := b.Write(t.Context(), "a/object", []byte("old")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Write(t.Context(), "a/object", bytes.Repeat([]byte("new"), 1<<20)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
		if got, err := b.ReadAll(t.Context(), "a/object"); string(got) != "old" {
			t.Errorf("then the object has %d bytes: %v", len(got), err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "a")); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := b.Write(t.Context(), "a/object", []byte("new")); err != nil {
		t.Error(err)
	}
	if got, err := b.ReadAll(t.Context(), "a/object"); string(got) != "new" {
		t.Errorf("the object is %q: %v", got, err)
	}
}
