package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An item is an entry of a tar.
type item struct {
	kind       byte
	name, text string // the content of a file, or the target of a link
	mode       int64
}

func tarOf(t *testing.T, items ...item) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, it := range items {
		h := &tar.Header{Typeflag: it.kind, Name: it.name, Mode: 0o644}
		if it.mode != 0 {
			h.Mode = it.mode
		} else if it.kind == tar.TypeDir {
			h.Mode = 0o755
		}
		if it.kind == tar.TypeReg {
			h.Size = int64(len(it.text))
		} else {
			h.Linkname = it.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if it.kind == tar.TypeReg {
			if _, err := io.WriteString(w, it.text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// A place is a directory with a root `in`, and a file `secret` beside it that must never change.
func place(t *testing.T) (dir string, root *os.Root) {
	t.Helper()
	dir = t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "in"), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "secret"), []byte("untouched"), 0o600)
	}
	if err == nil {
		root, err = os.OpenRoot(filepath.Join(dir, "in"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

// The function `list` describes what is in a directory, and fails if a link in it leads out.
func list(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		name, _ := filepath.Rel(dir, file)
		switch info, _ := d.Info(); {
		case d.IsDir():
			lines = append(lines, name+"/")
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(file)
			lines = append(lines, name+" -> "+target)
			if to, err := filepath.EvalSymlinks(file); err == nil && to != real && !strings.HasPrefix(to, real+"/") {
				t.Errorf("%s leads to %s", name, to)
			}
		default:
			b, _ := os.ReadFile(file)
			lines = append(lines, fmt.Sprintf("%s %s %s", name, info.Mode().Perm(), b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestUnpackHostile unpacks what a hostile job could send. Nothing outside changes, and no link leads out.
func TestUnpackHostile(t *testing.T) {
	const file, dir, link, hard = tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink
	for name, c := range map[string]struct {
		items []item
		err   string // "" if it is unpacked
		skips int
	}{
		"parent":              {[]item{{kind: file, name: "../secret", text: "x"}}, "not in", 0},
		"parent inside":       {[]item{{kind: file, name: "data/../../secret", text: "x"}}, "not in", 0},
		"absolute":            {[]item{{kind: file, name: "/etc/ares-test", text: "x"}}, "not in", 0},
		"sibling":             {[]item{{kind: file, name: "other", text: "x"}}, "not in", 0},
		"same beginning":      {[]item{{kind: file, name: "database", text: "x"}}, "not in", 0},
		"nothing":             {nil, "was not received", 0},
		"link out":            {[]item{{kind: dir, name: "data"}, {kind: link, name: "data/l", text: "../../secret"}}, "", 1},
		"link to a sibling":   {[]item{{kind: dir, name: "data"}, {kind: link, name: "data/l", text: "../other"}}, "", 1},
		"absolute link":       {[]item{{kind: dir, name: "data"}, {kind: link, name: "data/l", text: "/etc/passwd"}}, "", 1},
		"a link alone":        {[]item{{kind: link, name: "data", text: "secret"}}, "", 1},
		"parent after a link": {[]item{{kind: dir, name: "data"}, {kind: dir, name: "data/a"}, {kind: link, name: "data/a/up", text: "../b"}, {kind: link, name: "data/l", text: "a/up/../../../secret"}}, "", 1},
		"through a link":      {[]item{{kind: dir, name: "data"}, {kind: link, name: "data/l", text: "d"}, {kind: dir, name: "data/d"}, {kind: file, name: "data/l/x", text: "x"}}, "below a link", 0},
		"hard link out":       {[]item{{kind: dir, name: "data"}, {kind: hard, name: "data/h", text: "../secret"}}, "not in", 0},
		"hard link to before": {[]item{{kind: dir, name: "data"}, {kind: hard, name: "data/h", text: "data/old"}}, "", 1},
		"hard link to a link": {[]item{{kind: dir, name: "data"}, {kind: dir, name: "data/d"}, {kind: dir, name: "data/d/e"}, {kind: link, name: "data/d/e/l", text: "../../x"}, {kind: hard, name: "data/h", text: "data/d/e/l"}}, "", 1},
		"device":              {[]item{{kind: dir, name: "data"}, {kind: tar.TypeChar, name: "data/c"}, {kind: tar.TypeFifo, name: "data/f"}}, "", 2},
		"file over directory": {[]item{{kind: dir, name: "data"}, {kind: file, name: "data/keep", text: "x"}}, "directory with this name", 0},
	} {
		t.Run(name, func(t *testing.T) {
			at, root := place(t)
			if name == "file over directory" {
				if err := os.MkdirAll(filepath.Join(at, "in/data/keep"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			skips := 0
			err := Unpack(tarOf(t, c.items...), root, "data", "data", func(string, string) { skips++ })
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
			if skips != c.skips {
				t.Errorf("%d entries were skipped, want %d", skips, c.skips)
			}
			list(t, filepath.Join(at, "in"))
			if b, _ := os.ReadFile(filepath.Join(at, "secret")); string(b) != "untouched" {
				t.Errorf("the file outside is %q", b)
			}
			if left, _ := os.ReadDir(at); len(left) != 2 {
				t.Errorf("outside are %v", left)
			}
		})
	}
}

// TestUnpackTwice unpacks a second time into a directory that has a link of the first time.
func TestUnpackTwice(t *testing.T) {
	const file, dir, link = tar.TypeReg, tar.TypeDir, tar.TypeSymlink
	at, root := place(t)
	own := filepath.Join(at, "in", "own")
	if err := os.WriteFile(own, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(name, why string) { t.Errorf("skipped %s: %s", name, why) }
	if err := Unpack(tarOf(t, item{kind: dir, name: "data"}, item{kind: link, name: "data/x", text: "."}), root, "data", "data", none); err != nil {
		t.Fatal(err)
	}
	for _, items := range [][]item{
		{{kind: link, name: "data/x/l", text: ".."}, {kind: file, name: "data/l/own", text: "changed"}},
		{{kind: dir, name: "data/x/d"}},
	} {
		if err := Unpack(tarOf(t, items...), root, "data", "data", none); err == nil || !strings.Contains(err.Error(), "below a link, data/x") {
			t.Errorf("the error is %v", err)
		}
	}
	if b, err := os.ReadFile(own); string(b) != "untouched" {
		t.Errorf("the user's file is %q, %v", b, err)
	}
}

// TestUnpackReplaces checks what happens to entries that are there already, and to a link of the user that leads out.
func TestUnpackReplaces(t *testing.T) {
	at, root := place(t)
	in := filepath.Join(at, "in")
	if err := os.Symlink("../secret", filepath.Join(in, "out.txt")); err != nil {
		t.Fatal(err)
	}
	none := func(name, why string) { t.Errorf("skipped %s: %s", name, why) }
	if err := Unpack(tarOf(t, item{kind: tar.TypeReg, name: "./log", text: "new", mode: 0o4755}), root, "log", "out.txt", none); err != nil {
		t.Fatal(err)
	}
	items := []item{
		{kind: tar.TypeDir, name: "./"}, {kind: tar.TypeDir, name: "closed", mode: 0o555}, {kind: tar.TypeReg, name: "closed/f", text: "f"},
		{kind: tar.TypeLink, name: "again", text: "closed/f"}, {kind: tar.TypeSymlink, name: "near", text: "./closed/f"}, {kind: tar.TypeSymlink, name: "closed/up", text: "../again"},
	}
	for range 2 { // the second time replaces all of it
		if err := Unpack(tarOf(t, items...), root, ".", ".", none); err != nil && os.Getuid() == 0 {
			t.Fatal(err)
		}
	}
	want := "again -rw-r--r-- f\nclosed/\nclosed/f -rw-r--r-- f\nclosed/up -> ../again\nnear -> ./closed/f\nout.txt -rwxr-xr-x new"
	if got := list(t, in); got != want {
		t.Errorf("unpacked:\n%s\nwant:\n%s", got, want)
	}
	if st, err := os.Stat(filepath.Join(in, "closed")); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if b, _ := os.ReadFile(filepath.Join(at, "secret")); string(b) != "untouched" {
		t.Errorf("the file outside is %q", b)
	}
	if err := os.Chmod(filepath.Join(in, "closed"), 0o755); err != nil { // so that everybody can remove it
		t.Fatal(err)
	}
}

// TestPack packs a directory, and unpacks it under another name.
func TestPack(t *testing.T) {
	at, root := place(t)
	source := filepath.Join(at, "source")
	long := strings.Repeat("long-", 30) + "ü"
	err := os.MkdirAll(filepath.Join(source, "a", long), 0o755)
	for name, text := range map[string]string{"a/f": "text", "a/" + long + "/" + long: "deep", "empty": ""} {
		if err == nil {
			err = os.WriteFile(filepath.Join(source, name), []byte(text), 0o640)
		}
	}
	if err == nil {
		err = os.Symlink("a/f", filepath.Join(source, "link"))
	}
	if err != nil {
		t.Fatal(err)
	}
	none := func(name, why string) { t.Errorf("skipped %s: %s", name, why) }
	for _, name := range []string{"source", "."} {
		var b bytes.Buffer
		if err := Pack(&b, source, name, none); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(&b, root, name, "copy", none); err != nil && name != "." {
			t.Fatal(err)
		}
		if got, want := list(t, filepath.Join(at, "in/copy")), list(t, source); got != want {
			t.Errorf("%s: copied\n%s\nwant\n%s", name, got, want)
		}
	}
	var b bytes.Buffer
	if err := Pack(&b, filepath.Join(source, "link"), "link", none); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(&b, root, "link", "file", none); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(at, "in/file")); string(got) != "text" {
		t.Errorf("a link is copied as %q, want the file", got)
	}
}
