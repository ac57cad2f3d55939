package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRoomToBegin checks that a disk that is too small for a new store is reported before etcd panics.
func TestRoomToBegin(t *testing.T) {
	t.Parallel()
	old := t.TempDir()
	if err := os.Mkdir(filepath.Join(old, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	for _, c := range []struct {
		dir    string
		freeMB int64
		ok     bool
	}{
		{fresh, newStoreMB - 1, false},
		{fresh, 0, false},
		{fresh, newStoreMB, true},
		{fresh, -1, true}, // the system does not report it
		{old, 0, true},
	} {
		err := checkFreeSpace(c.dir, c.freeMB)
		if (err == nil) != c.ok {
			t.Errorf("with %d MB at %s: %v", c.freeMB, c.dir, err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.dir) || !strings.Contains(err.Error(), "--data-dir")) {
			t.Errorf("%v does not say where and what to do", err)
		}
	}
	if freeMB(fresh) < 0 || freeMB(filepath.Join(fresh, "nowhere")) != -1 {
		t.Error("the space of a directory is known, that of none is not")
	}
}
