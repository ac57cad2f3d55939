package objects_test

import (
	"errors"
	"flag"
	"fmt"
	"github.com/ares-scheduler/ares/objects/bucket"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/objects/scan"
	"github.com/ares-scheduler/ares/objects/tree"
)

// long tests 1,000 trees instead of 60: go test ./objects -run TestTreeInTheJob -long
var long = flag.Bool("long", false, "test 1,000 random trees")

// describe returns every entry of a directory with its mode, its content or its target.
func describe(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		st, err := os.Lstat(path)
		if err != nil {
			return err
		}
		text := st.Mode().String()
		switch {
		case st.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %d %s", len(data), tree.Sum(data))
		case st.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text = "link " + target
		}
		out[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// grow fills a directory at random.
func grow(t *rapid.T, dir, path string, depth int) {
	name := rapid.SampledFrom([]string{"a", "b", "train.py", "-x", "a b", "\xff\xfe", "näme", "a.", "a-", "a0", ".hidden", "new\nline"})
	mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o600, 0o755, 0o400, 0o777, 0o444, 0o555})
	used := map[string]bool{}
	for range rapid.IntRange(0, 5).Draw(t, "entries") {
		n := name.Draw(t, "name")
		if used[n] {
			continue
		}
		used[n] = true
		whole := filepath.Join(dir, path, n)
		var err error
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			if err = os.Mkdir(whole, 0o755); err == nil {
				grow(t, dir, filepath.Join(path, n), depth-1)
				err = os.Chmod(whole, rapid.SampledFrom([]fs.FileMode{0o755, 0o700, 0o555, 0o711}).Draw(t, "mode"))
			}
		case kind == 1:
			err = os.Symlink(rapid.SampledFrom([]string{"a", "b/c", ".", "train.py", "none", "\xff"}).Draw(t, "target"), whole)
		default:
			size := rapid.SampledFrom([]int{0, 1, 100, tree.ChunkSize - 1, tree.ChunkSize, tree.ChunkSize + 1, 2*tree.ChunkSize + 7}).Draw(t, "size")
			fill := rapid.SampledFrom([]string{"x", "yz", "\x00"}).Draw(t, "fill")
			if err = os.WriteFile(whole, []byte(strings.Repeat(fill, size)[:size]), 0o600); err == nil {
				err = os.Chmod(whole, mode.Draw(t, "mode"))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTreeInTheJob takes random directories through all steps: scan, upload, delivery, unpacking. What arrives must equal what was there,
// byte and mode. Then the user changes the directory, and the second attempt of the job must still get the first state.
func TestTreeInTheJob(t *testing.T) {
	if *long {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			t.Fatal(err)
		}
	} else if err := flag.Set("rapid.checks", "60"); err != nil {
		t.Fatal(err)
	}
	store, err := objects.Open(t.Context(), objects.Config{Place: bucket.InDir(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint("tree", n))
		if err := os.Mkdir(dir, 0o755); err != nil {
			rt.Fatal(err)
		}
		defer removeAll(dir)
		grow(rt, dir, "", 3)
		want := describe(t, dir)
		r, err := scan.Scan(t.Context(), dir, filepath.Join(base, "cache"))
		if err != nil {
			rt.Fatal(err)
		}
		send(t, store, r)
		for attempt := 1; attempt <= 2; attempt++ {
			job := filepath.Join(base, fmt.Sprint("job", n))
			if err := os.Mkdir(job, 0o700); err != nil {
				rt.Fatal(err)
			}
			if err := unpack(t, store, r.Digest, job); err != nil {
				rt.Fatal(err)
			}
			got := describe(t, job)
			for path, is := range want {
				if got[path] != is {
					rt.Errorf("attempt %d: %q is %q, and was %q", attempt, path, got[path], is)
				}
			}
			if len(got) != len(want) {
				rt.Errorf("attempt %d: %d entries instead of %d", attempt, len(got), len(want))
			}
			removeAll(job)
			_ = os.WriteFile(filepath.Join(dir, "later"), []byte("x"), 0o600)
		}
	})
}

// removeAll removes a directory although its modes may forbid it.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

func send(t testing.TB, store *objects.Store, r *scan.Result) {
	t.Helper()
	for {
		_, missing, err := store.Commit(t.Context(), "vision", r.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if len(missing) == 0 {
			return
		}
		for _, d := range missing {
			chunk, err := r.Chunk(d)
			if err != nil {
				t.Fatal(err)
			}
			if err = store.Put(t.Context(), "vision", chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func unpack(t testing.TB, store *objects.Store, d tree.Digest, dir string) error {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var u *tree.Unpacker
	err = store.Send(t.Context(), "vision", d, func(snapshot []byte) (err error) {
		u, err = tree.NewUnpacker(root, nil, d, snapshot)
		return err
	}, func(chunk []byte) error { return u.Add(chunk) })
	if err != nil {
		return err
	}
	return u.Close()
}

// TestUnpackerTrustsNobody gives an agent trees that a hostile server or user made.
func TestUnpackerTrustsNobody(t *testing.T) {
	x := tree.Sum([]byte("x"))
	file := func(path string) *apipb.TreeEntry {
		return &apipb.TreeEntry{Path: []byte(path), Kind: apipb.TreeEntry_KIND_FILE, Mode: 0o600, Size: 1, Chunks: [][]byte{x[:]}}
	}
	for name, entries := range map[string][]*apipb.TreeEntry{
		"out of the directory": {file("../x")},
		"absolute":             {file("/tmp/x")},
		"through a link":       {{Path: []byte("l"), Kind: apipb.TreeEntry_KIND_LINK, Target: []byte("d")}, file("l/x")},
		"link out":             {{Path: []byte("l"), Kind: apipb.TreeEntry_KIND_LINK, Target: []byte("../../etc")}},
		"twice":                {file("x"), file("x")},
		"set-user-ID":          {{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_FILE, Mode: 0o4755, Size: 1, Chunks: [][]byte{x[:]}}},
		"too large":            {{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_FILE, Size: 1 << 40, Chunks: [][]byte{x[:]}}},
		"too deep":             {file(strings.Repeat("d/", 100) + "x")},
	} {
		e, err := tree.Encode(entries)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		snapshot, err := tree.EncodeSnapshot(e.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		u, err := tree.NewUnpacker(root, nil, e.Digest, snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range e.Parts {
			if err = u.Add(part); ares.CodeOf(err) != ares.Invalid && ares.CodeOf(err) != ares.TooLarge {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("%s: something was written: %v %v", name, list, err)
		}
		_ = root.Close()
	}
}

// TestUnpackerWithDamagedChunks checks that nothing but the snapshot itself is unpacked.
func TestUnpackerWithDamagedChunks(t *testing.T) {
	x := tree.Sum([]byte("x"))
	e, err := tree.Encode([]*apipb.TreeEntry{{Path: []byte("x"), Kind: apipb.TreeEntry_KIND_FILE, Mode: 0o600, Size: 1, Chunks: [][]byte{x[:]}}})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := tree.EncodeSnapshot(e.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := tree.NewUnpacker(root, nil, e.Digest, append(snapshot, 0)); err == nil {
		t.Error("a damaged snapshot was accepted")
	}
	u, err := tree.NewUnpacker(root, nil, e.Digest, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range e.Parts {
		if err := u.Add(append([]byte(nil), append(part, 0)...)); err == nil {
			t.Error("a damaged part was accepted")
		}
		if err := u.Add(part); err != nil {
			t.Error(err)
		}
	}
	if err := u.Add([]byte("y")); err == nil {
		t.Error("a chunk of another snapshot was accepted")
	}
	if err := u.Close(); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("an incomplete snapshot: %v", err)
	}
}

// TestUnpackOnAFullDisk unpacks into a device that is always full. The error must stay recognizable for the agent.
func TestUnpackOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("this machine does not permit mounts: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	store, err := objects.Open(t.Context(), objects.Config{Place: bucket.InDir(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "big"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := scan.Scan(t.Context(), source, "")
	if err != nil {
		t.Fatal(err)
	}
	send(t, store, r)
	if err := unpack(t, store, r.Digest, dir); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}
