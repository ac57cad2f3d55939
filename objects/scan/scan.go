package scan

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/tree"
)

// Result is a directory that was read.
type Result struct {
	*tree.Encoded
	Dir     string // absolute path
	Entries int
	Bytes   int64
	// Changed has the digests of the chunks that a server lacks which has the snapshot of the last scan: the chunks of the
	// files that were read, and the tree parts with these files. It is a guess, and empty if there are more than maxChanged.
	Changed [][sha256.Size]byte

	entries []*apipb.TreeEntry // ordered by path
	sources map[tree.Digest]source
	leftOut map[string]*Rule // files and directories that a rule leaves out, and the rule
}

// source is where a chunk of a file is.
type source struct {
	path   string
	offset int64
	size   int64
}

// Scan reads a directory. The argument `cache` is the path of the cache file; "" means that every file is read.
func Scan(ctx context.Context, dir, cache string) (*Result, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "the directory %q to sync cannot be opened: %s", dir, reason(err))
	}
	if st, err := os.Stat(abs); err != nil || !st.IsDir() {
		return nil, ares.Errorf(ares.Invalid, "%q is not a directory: give --sync a directory, such as --sync .", dir)
	}
	w := &walk{Result: &Result{Dir: abs, leftOut: map[string]*Rule{}, sources: map[tree.Digest]source{}}, ctx: ctx, began: time.Now(), perTop: map[string]int{}}
	if err = w.dir("", builtIn()); err != nil {
		return nil, err
	}
	known := readCache(cache)
	if err = w.digests(known); err != nil {
		return nil, err
	}
	slices.SortFunc(w.found, func(a, b *found) int { return bytes.Compare(a.entry.Path, b.entry.Path) })
	for _, f := range w.found {
		w.entries = append(w.entries, f.entry)
		for i, b := range f.entry.Chunks {
			at := int64(i) * tree.ChunkSize
			w.sources[tree.Digest(b)] = source{string(f.entry.Path), at, min(tree.ChunkSize, f.entry.Size-at)}
		}
	}
	w.Result.Entries = len(w.entries)
	if w.Encoded, err = tree.Encode(w.entries); err != nil {
		return nil, err
	}
	if len(known) > 0 {
		w.Changed = w.changed()
	}
	writeCache(cache, known, w.found, w.began)
	return w.Result, nil
}

// maxChanged limits Result.Changed. A chunk has at most 1 MiB.
const maxChanged = 4

// The method `changed` returns Result.Changed.
func (w *walk) changed() (out [][sha256.Size]byte) {
	part, last := 0, -1
	for i, f := range w.found {
		for part < len(w.Ends) && i >= w.Ends[part] {
			part++
		}
		if f.known || len(f.entry.Chunks) == 0 {
			continue
		}
		if part != last {
			out, last = append(out, tree.Digest(w.Snapshot.Parts[part])), part
		}
		for _, b := range f.entry.Chunks {
			out = append(out, tree.Digest(b))
		}
		if len(out) > maxChanged {
			return nil
		}
	}
	return out
}

// Has reports whether the snapshot contains a path.
func (r *Result) Has(path string) bool {
	_, ok := slices.BinarySearchFunc(r.entries, path, func(e *apipb.TreeEntry, path string) int { return cmp.Compare(string(e.Path), path) })
	return ok
}

// LeftOut returns the rule that leaves out a path or a directory above it, or nil.
func (r *Result) LeftOut(path string) *Rule {
	for path != "." && path != "/" && path != "" {
		if rule := r.leftOut[path]; rule != nil {
			return rule
		}
		path = filepath.Dir(path)
	}
	return nil
}

// ErrChanged means that a file has changed since it was scanned, so the directory must be scanned again.
var ErrChanged = errors.New("a file has changed since it was read")

// Chunk returns a chunk of the snapshot.
func (r *Result) Chunk(d tree.Digest) ([]byte, error) {
	if part, ok := r.Parts[d]; ok {
		return part, nil
	}
	s, ok := r.sources[d]
	if !ok {
		return nil, ares.Errorf(ares.Internal, "the server asks for the chunk %s, which is not in the snapshot", d)
	}
	f, err := openFile(filepath.Join(r.Dir, s.path))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	defer f.Close()
	data := make([]byte, s.size)
	if _, err = f.ReadAt(data, s.offset); err != nil || tree.Sum(data) != d {
		return nil, fmt.Errorf("%w: %s", ErrChanged, s.path)
	}
	return data, nil
}

// found is an entry of the directory, and what the file system says about it.
type found struct {
	entry *apipb.TreeEntry
	stamp stamp
	known bool // the digests are from the cache
}

type walk struct {
	*Result
	ctx    context.Context
	began  time.Time
	found  []*found
	perTop map[string]int // the number of entries by the first name of their paths, for the error of too many files
}

// The method `dir` reads a directory and those below it. The argument `dir` is "" for the top.
func (w *walk) dir(dir string, rules []*Rule) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if st, err := os.Lstat(filepath.Join(w.Dir, dir, IgnoreFile)); err == nil && st.Mode().IsRegular() {
		more, err := w.rulesIn(dir)
		if err != nil {
			return err
		}
		rules = slices.Concat(rules, more)
	}
	f, err := os.Open(filepath.Join(w.Dir, dir))
	if err != nil {
		return unreadable(cmp.Or(dir, "."), err)
	}
	defer f.Close()
	// A directory is read in pieces, so that one with a million files is refused as soon as the limit is reached.
	for {
		list, err := f.ReadDir(dirBatch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable(cmp.Or(dir, "."), err)
		}
		if err := w.list(dir, list, rules); err != nil {
			return err
		}
	}
}

// dirBatch is how many entries of a directory are read at once.
const dirBatch = 4096

// The method `list` adds entries of a directory, and reads the directories among them.
func (w *walk) list(dir string, list []fs.DirEntry, rules []*Rule) error {
	for _, d := range list {
		path := d.Name()
		if dir != "" {
			path = dir + "/" + path
		}
		if rule := decide(rules, path, d.IsDir()); rule != nil && !rule.include {
			w.leftOut[path] = rule
			continue
		}
		if err := w.add(path, d); err != nil {
			return err
		}
		if d.IsDir() {
			if err := w.dir(path, rules); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) rulesIn(dir string) ([]*Rule, error) {
	path := filepath.Join(dir, IgnoreFile)
	f, err := openFile(filepath.Join(w.Dir, path))
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	content := make([]byte, maxIgnoreBytes+1)
	n, err := readFull(f, content)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if n > maxIgnoreBytes {
		return nil, ares.Errorf(ares.TooLarge, "%s has more than %d KiB, which is the limit: use patterns instead of single paths", path, maxIgnoreBytes>>10)
	}
	return parseRules(dir, content[:n]), nil
}

func (w *walk) add(path string, d fs.DirEntry) error {
	top, _, _ := strings.Cut(path, "/")
	if w.perTop[top]++; len(w.found) >= tree.MaxEntries {
		return w.tooMany()
	}
	if strings.Count(path, "/") >= tree.MaxDepth || len(path) > tree.MaxPath {
		return tree.TooDeep([]byte(path))
	}
	st, err := os.Lstat(filepath.Join(w.Dir, path))
	if err != nil {
		return unreadable(path, err)
	}
	e := &apipb.TreeEntry{Path: []byte(path), Mode: uint32(st.Mode().Perm())}
	switch st.Mode().Type() {
	case fs.ModeDir:
		e.Kind = apipb.TreeEntry_KIND_DIRECTORY
	case fs.ModeSymlink:
		target, err := os.Readlink(filepath.Join(w.Dir, path))
		if err != nil {
			return unreadable(path, err)
		}
		e.Kind, e.Mode, e.Target = apipb.TreeEntry_KIND_LINK, 0, []byte(target)
		if err = tree.CheckLink(e.Path, e.Target); err != nil {
			return err
		}
	case 0:
		e.Kind, e.Size = apipb.TreeEntry_KIND_FILE, st.Size()
		if w.Bytes += e.Size; w.Bytes > tree.MaxBytes {
			return w.tooLarge(path, e.Size)
		}
	default:
		return ares.Errorf(ares.Invalid, "%q is %s, which --sync cannot take along: remove it, or add it to %s", path, kindName(st.Mode()), IgnoreFile)
	}
	w.found = append(w.found, &found{entry: e, stamp: stampOf(st)})
	return nil
}

func (w *walk) tooMany() error {
	err := tree.TooMany()
	top, most := "", 0
	for name, n := range w.perTop {
		if n > most || n == most && name < top {
			top, most = name, n
		}
	}
	err.Message += fmt.Sprintf(". Of the files read so far, %d are in %q", most, top)
	return err
}

func (w *walk) tooLarge(path string, size int64) error {
	err := tree.TooLarge()
	for _, f := range w.found {
		if f.entry.Size > size {
			path, size = string(f.entry.Path), f.entry.Size
		}
	}
	err.Message += fmt.Sprintf(". The largest file read so far is %q with %d MiB", path, size>>20)
	return err
}

func kindName(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no ordinary file"
}

// The method `digests` reads every file that the cache does not know, with several goroutines.
func (w *walk) digests(known map[string]*cached) error {
	var todo []*found
	for _, f := range w.found {
		if f.entry.Kind != apipb.TreeEntry_KIND_FILE || f.entry.Size == 0 {
			continue
		}
		if c := known[string(f.entry.Path)]; c != nil && c.stamp == f.stamp {
			f.entry.Chunks, f.known = c.chunks, true
			continue
		}
		todo = append(todo, f)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(todo))
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			buffer := make([]byte, tree.ChunkSize)
			for errs[i] == nil {
				k := int(next.Add(1)) - 1
				if k >= len(todo) {
					return
				}
				if errs[i] = w.ctx.Err(); errs[i] == nil {
					errs[i] = digestFile(w.Dir, todo[k], buffer)
				}
			}
			next.Store(int64(len(todo)))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
