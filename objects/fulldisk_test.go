package objects

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects/tree"
)

// TestUploadOnAFullDisk uploads code to a server whose disk becomes full. The error says what to do, nothing half remains, and the upload
// continues when there is room again, although the limit of the tenant leaves no room for what failed.
func TestUploadOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("no mounts here: " + err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	contents := make([]string, 8)
	for i := range contents {
		contents[i] = strings.Repeat(string(rune('a'+i)), 200_000)
	}
	e, chunks := snapshot(t, contents...)
	dir := filepath.Join(small, "objects")
	s := openAt(t, dir, newClock(), 2<<20)
	filler := filepath.Join(small, "filler")
	if err := os.WriteFile(filler, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	stored := map[tree.Digest]bool{}
	for range 3 { // a user tries again
		failed := 0
		for d, chunk := range chunks {
			if err := s.Put(t.Context(), "vision", chunk); err == nil {
				stored[d] = true
			} else if failed++; ares.CodeOf(err) != ares.LimitReached || !strings.Contains(err.Error(), "the disk of the server's objects is full: an administrator must free space in "+dir) {
				t.Errorf("on a full disk: %v", err)
			}
		}
		if failed == 0 {
			t.Fatal("the disk is not full: the test shows nothing")
		}
	}
	size := 0
	for d := range stored {
		size += len(chunks[d])
	}
	if held := sizeOf(t, dir); held > size+100_000 { // with the attributes of each object
		t.Errorf("%d bytes are on the disk for %d bytes that were accepted", held, size)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if n := upload(t, s, "vision", e, chunks); n != len(chunks)-len(stored) {
		t.Errorf("with room again, %d chunks were sent, and %d were missing", n, len(chunks)-len(stored))
	}
	if n, err := content(t, s, "vision", e.Digest); n != len(chunks) || err != nil {
		t.Errorf("an agent gets %d chunks of %d: %v", n, len(chunks), err)
	}
}

// sizeOf returns the size of all files below a directory.
func sizeOf(t *testing.T, dir string) (size int) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			size += int(st.Size())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return size
}
