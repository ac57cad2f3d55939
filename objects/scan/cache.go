package scan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/objects/tree"
)

// cached is what the cache file knows about a file.
type cached struct {
	stamp  stamp
	chunks [][]byte
}

const (
	cacheVersion  = "ares-sync-1\n"
	maxCacheBytes = 64 << 20
	// settled is the age at which a file's times prove that it did not change after it was read. The clocks of some file
	// systems are coarse, so a younger file may change without a change of its times. It is read again the next time.
	settled = time.Second
)

// CacheFile returns the path of the cache file for a directory, or "" if the user has no cache directory.
func CacheFile(dir string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(base, "ares", "sync", hex.EncodeToString(sum[:16]))
}

// readCache returns what the cache file knows. A file that is missing, damaged or of another version is the same as an empty one.
func readCache(path string) map[string]*cached {
	if path == "" {
		return nil
	}
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || st.Size() > maxCacheBytes {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) < len(cacheVersion)+sha256.Size || string(data[:len(cacheVersion)]) != cacheVersion {
		return nil
	}
	body, sum := data[len(cacheVersion):len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return nil
	}
	out := map[string]*cached{}
	for r := (&reader{rest: body}); len(r.rest) > 0; {
		path, c := string(r.take(int(r.number()))), &cached{}
		c.stamp = stamp{int64(r.number()), int64(r.number()), int64(r.number()), r.number(), r.number()}
		chunks := r.take(int(r.number()) * sha256.Size)
		if r.bad {
			return nil
		}
		for ; len(chunks) > 0; chunks = chunks[sha256.Size:] {
			c.chunks = append(c.chunks, chunks[:sha256.Size:sha256.Size])
		}
		out[path] = c
	}
	return out
}

type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

// writeCache replaces the cache file if a file was read. It writes a temporary file first, so that commands at the same time do
// not disturb each other. An error is ignored, because the next command then only takes longer.
func writeCache(path string, known map[string]*cached, list []*found, began time.Time) {
	if path == "" {
		return
	}
	body, kept, fresh := []byte(nil), 0, false
	limit := began.Add(-settled).UnixNano()
	for _, f := range list {
		e := f.entry
		if len(e.Chunks) == 0 || f.stamp.mtime >= limit || f.stamp.ctime >= limit {
			continue
		}
		kept, fresh = kept+1, fresh || !f.known
		body = binary.AppendUvarint(body, uint64(len(e.Path)))
		body = append(body, e.Path...)
		for _, v := range []uint64{uint64(f.stamp.size), uint64(f.stamp.mtime), uint64(f.stamp.ctime), f.stamp.device, f.stamp.inode, uint64(len(e.Chunks))} {
			body = binary.AppendUvarint(body, v)
		}
		for _, d := range e.Chunks {
			body = append(body, d...)
		}
	}
	if !fresh && kept == len(known) {
		return
	}
	sum := tree.Sum(body)
	_ = replaceFile(path, append(append([]byte(cacheVersion), body...), sum[:]...))
}

func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
