package scan

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/tree"
)

func write(t testing.TB, dir, path, content string) {
	t.Helper()
	whole := filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(whole), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(whole, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func scan(t testing.TB, dir string) *Result {
	t.Helper()
	r, err := Scan(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused scans a directory that must be rejected, and checks the message.
func refused(t *testing.T, dir string, code ares.Code, words ...string) {
	t.Helper()
	_, err := Scan(t.Context(), dir, "")
	if ares.CodeOf(err) != code {
		t.Fatalf("got %v, want the code %s", err, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error lacks %q: %v", w, err)
		}
	}
}

// TestChangedFilesAreKnown checks that the second scan names the chunks of the changed file and of its tree part, which the
// client sends without being asked.
func TestChangedFilesAreKnown(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	for i := range tree.PartEntries + 10 {
		write(t, dir, fmt.Sprintf("f%04d", i), fmt.Sprint(i))
	}
	again := func() *Result {
		t.Helper()
		r, err := Scan(t.Context(), dir, cache)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := again()
	if len(first.Changed) != 0 {
		t.Errorf("the first scan names %d chunks", len(first.Changed))
	}
	// The files are too young for the cache, so it is written as an hour later.
	var list []*found
	for _, e := range first.entries {
		st, err := os.Lstat(filepath.Join(dir, string(e.Path)))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, &found{entry: e, stamp: stampOf(st)})
	}
	writeCache(cache, nil, list, time.Now().Add(time.Hour))
	write(t, dir, fmt.Sprintf("f%04d", tree.PartEntries+3), "other")
	second := again()
	want := [][sha256.Size]byte{tree.Digest(second.Snapshot.Parts[1]), tree.Sum([]byte("other"))}
	if !slices.Equal(second.Changed, want) {
		t.Errorf("got %x, want %x", second.Changed, want)
	}
}

func TestLinksInCirclesAreKeptAsLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/file", "x")
	for link, target := range map[string]string{"a/self": "self", "a/up": "..", "one": "two", "two": "one"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if r := scan(t, dir); r.Entries != 6 || !r.Has("a/self") || !r.Has("two") {
		t.Errorf("got %d entries", r.Entries)
	}
}

func TestLinksOutOfTheTreeAreRefused(t *testing.T) {
	for _, target := range []string{"/etc/passwd", "../secret", "a/../../secret"} {
		dir := t.TempDir()
		if err := os.Symlink(target, filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, ares.Invalid, `"out"`, target, ".aresignore")
		write(t, dir, IgnoreFile, "out\n")
		scan(t, dir)
	}
}

func TestNamedPipesAndSocketsAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, ares.Invalid, `"pipe" is a named pipe`, "remove it, or add it to .aresignore")
	write(t, dir, IgnoreFile, "pipe")
	scan(t, dir)
}

// TestAFileThatBecomesANamedPipe must not wait for a writer of the pipe.
func TestAFileThatBecomesANamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &found{entry: newFile("pipe")}
	if _, err := digestOnce(path, f, make([]byte, 10)); err == nil || !strings.Contains(err.Error(), "named pipe") {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "log", "0")
	calls := 0
	beforeSecondStat = func(path string) {
		calls++
		write(t, dir, "log", strings.Repeat("x", calls+1))
	}
	t.Cleanup(func() { beforeSecondStat = func(string) {} })
	refused(t, dir, ares.Conflict, `"log" changes while it is read`, ".aresignore")
	if calls != maxReads {
		t.Errorf("it was read %d times", calls)
	}
	// A file that changes once is read again.
	calls = 0
	beforeSecondStat = func(string) {
		if calls++; calls == 1 {
			write(t, dir, "log", "settled")
		}
	}
	r := scan(t, dir)
	if data, err := r.Chunk(tree.Sum([]byte("settled"))); err != nil || string(data) != "settled" {
		t.Errorf("got %q, %v", data, err)
	}
}

func TestAFileThatVanishesWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "kept", "x")
	write(t, dir, "temporary", "x")
	f := &found{entry: newFile("gone")}
	err := digestFile(dir, f, make([]byte, 10))
	if ares.CodeOf(err) != ares.Conflict || !strings.Contains(err.Error(), `"gone" vanished`) || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("got %v", err)
	}
	// Between the scan and the upload.
	r := scan(t, dir)
	if err := os.Remove(filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "temporary", "y")
	if _, err := r.Chunk(tree.Sum([]byte("x"))); err == nil || !strings.Contains(err.Error(), ErrChanged.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestNamesThatAreNotUTF8(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b\xff\xfe.py", "x")
	write(t, dir, "d\xc3/\xe2\x82", "y")
	if r := scan(t, dir); !r.Has("b\xff\xfe.py") || !r.Has("d\xc3/\xe2\x82") {
		t.Error("a name is missing")
	}
}

func TestTooManyFilesSaysWhereTheyAre(t *testing.T) {
	w := &walk{Result: &Result{Dir: t.TempDir()}, perTop: map[string]int{"data": 99_000, "src": 1000}, found: make([]*found, tree.MaxEntries)}
	err := w.add("src/one", nil)
	if ares.CodeOf(err) != ares.TooLarge || !strings.Contains(err.Error(), `99000 are in "data"`) || !strings.Contains(err.Error(), ".aresignore") {
		t.Errorf("got %v", err)
	}
}

func TestTooLargeSaysWhichFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "small", "x")
	write(t, dir, "model.bin", "")
	if err := os.Truncate(filepath.Join(dir, "model.bin"), tree.MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, ares.TooLarge, `"model.bin" with 1024 MiB`, ".aresignore")
}

func TestTooDeep(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, strings.Repeat("d/", tree.MaxDepth)+"f", "x")
	refused(t, dir, ares.TooLarge, "64 directories", ".aresignore")
}

func TestUnreadableFile(t *testing.T) {
	err := unreadable("x", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES})
	if ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("got %v", err)
	}
}

func TestGitDirectoryIsLeftOutUnlessIncluded(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, ".git/config", "x")
	if scan(t, dir).Has(".git") {
		t.Error(".git is in the snapshot")
	}
	write(t, dir, IgnoreFile, "!.git\n")
	if !scan(t, dir).Has(".git/config") {
		t.Error(".git is not in the snapshot")
	}
}

func TestLeftOutNamesTheRule(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/b/c.py", "x")
	write(t, dir, IgnoreFile, "# data\n\nb/\n")
	r := scan(t, dir)
	if rule := r.LeftOut("a/b/c.py"); rule == nil || rule.String() != "line 3 of .aresignore (b/)" {
		t.Errorf("got %v", rule)
	}
	if rule := r.LeftOut("a/x.py"); rule != nil {
		t.Errorf("got %v", rule)
	}
}

// TestCache changes a file in ways that hide the change, and checks that the scan with the cache always agrees with one without it.
func TestCache(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "deep", "cache")
	old := time.Now().Add(-time.Hour)
	write(t, dir, "a", "one")
	write(t, dir, "b", "two")
	for _, name := range []string{"a", "b"} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	same := func(step string) {
		t.Helper()
		with, err := Scan(t.Context(), dir, cache)
		if err != nil {
			t.Fatal(err)
		}
		if without := scan(t, dir); with.Digest != without.Digest {
			t.Errorf("%s: the cache hides a change", step)
		}
	}
	same("first")
	same("again")
	// The same size and the same time of modification. Only ctime tells.
	write(t, dir, "a", "ONE")
	if err := os.Chtimes(filepath.Join(dir, "a"), old, old); err != nil {
		t.Fatal(err)
	}
	same("changed with the old time")
	if err := os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	same("replaced by another file")
	if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	same("with another mode")
}

func TestCacheKnowsSettledFilesOnly(t *testing.T) {
	now := time.Now()
	path := filepath.Join(t.TempDir(), "cache")
	old, young := &found{entry: newFile("old")}, &found{entry: newFile("young")}
	old.stamp.mtime, old.stamp.ctime = now.Add(-time.Minute).UnixNano(), now.Add(-time.Minute).UnixNano()
	young.stamp.mtime, young.stamp.ctime = now.Add(-time.Minute).UnixNano(), now.Add(-time.Millisecond).UnixNano()
	for _, f := range []*found{old, young} {
		d := tree.Sum(f.entry.Path)
		f.entry.Chunks = [][]byte{d[:]}
	}
	writeCache(path, nil, []*found{old, young}, now)
	got := readCache(path)
	if len(got) != 1 || got["old"] == nil || got["old"].stamp != old.stamp || !bytes.Equal(got["old"].chunks[0], old.entry.Chunks[0]) {
		t.Errorf("got %v", got)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data { // a damaged file is an empty one
		broken := bytes.Clone(data)
		broken[i] ^= 1
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if readCache(path) != nil {
			t.Fatalf("byte %d is not protected", i)
		}
	}
}

// TestIgnoreRulesAreThoseOfGit compares the rules with those of git, for random rules and paths. A class that is not closed before a
// slash is left out: git reads it across the slash, and here it matches nothing. So is ** after other text, which git sometimes reads as a
// word of its own.
func TestIgnoreRulesAreThoseOfGit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) string {
		c := exec.Command("git", args...)
		c.Dir, c.Env = dir, []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q", ".")
	names := []string{"a", "b", "ab", "a.py", "b.o", "data", "#x", "!y", "z "}
	for _, top := range names {
		for _, sub := range names[:6] {
			write(t, dir, top+"/"+sub+"/deep/a.py", "")
			write(t, dir, top+"/"+sub+"/f", "")
		}
	}
	word := rapid.SampledFrom([]string{"a", "b", "*", "**", "?", "a*", "*.py", "[ab]", "[!a]", "[a-c]*", "deep", "f", "data", `\a`, "*b", `\#x`, "#x", `\!y`, "z\\ ", "z ", "[[:alpha:]]", "a]"})
	line := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "!", "/", "!/"}).Draw(t, "prefix") +
			strings.Join(rapid.SliceOfN(word, 1, 3).Draw(t, "words"), "/") + rapid.SampledFrom([]string{"", "/", "/**", " ", "\r"}).Draw(t, "suffix")
	})
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(line, 1, 5).Draw(rt, "lines")
		nested := rapid.SliceOfN(line, 0, 2).Draw(rt, "nested")
		for _, name := range []string{IgnoreFile, ".gitignore"} {
			write(t, dir, name, strings.Join(lines, "\n")+"\n.gitignore\n"+IgnoreFile+"\n")
			write(t, dir, "a/"+name, strings.Join(nested, "\n")+"\n.gitignore\n"+IgnoreFile+"\n")
		}
		want := map[string]bool{}
		for _, path := range strings.Split(git("-c", "core.quotepath=off", "ls-files", "-z", "--others", "--exclude-standard"), "\x00") {
			if path != "" {
				want[path] = true
			}
		}
		r := scan(t, dir)
		for _, e := range r.entries {
			if path := string(e.Path); len(e.Chunks) == 0 && e.Kind == newFile("").Kind && !want[path] {
				rt.Errorf("%q: git leaves it out", path)
			} else {
				delete(want, path)
			}
		}
		for path := range want {
			rt.Errorf("%q: git takes it, but not this: %v", path, r.LeftOut(path))
		}
	})
}

func TestIgnoreFileLimit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, IgnoreFile, strings.Repeat("x\n", maxIgnoreBytes))
	refused(t, dir, ares.TooLarge, "64 KiB")
}

func TestScanOfWhatIsNoDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "")
	refused(t, filepath.Join(dir, "file"), ares.Invalid, "is not a directory")
	refused(t, filepath.Join(dir, "none"), ares.Invalid, "no such file")
}

func BenchmarkScan(b *testing.B) {
	dir, cache := b.TempDir(), filepath.Join(b.TempDir(), "cache")
	for i := range 5000 {
		write(b, dir, fmt.Sprintf("d%d/f%d", i%50, i), strings.Repeat("x", 20_000+i))
	}
	for b.Loop() {
		if _, err := Scan(b.Context(), dir, cache); err != nil {
			b.Fatal(err)
		}
	}
}

func newFile(path string) *apipb.TreeEntry {
	return &apipb.TreeEntry{Path: []byte(path), Kind: apipb.TreeEntry_KIND_FILE}
}
