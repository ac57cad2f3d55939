package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The type `file` is the output file of a segment.
type file interface {
	io.Writer
	io.Closer
	Sync() error
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
}

// The type `opener` opens a segment for appending.
type opener func(path string) (file, error)

func openFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, syncDir(filepath.Dir(path))
}

// The type `segment` is one file of the log.
type segment struct {
	path  string
	first uint64 // sequence of its first entry
}

const (
	segmentPrefix = "audit-"
	segmentSuffix = ".jsonl"
)

// segmentName returns the name of the segment that begins with the given entry. Sorting the names puts the segments
// in the order of their entries.
func segmentName(first uint64) string {
	return fmt.Sprintf("%s%012d%s", segmentPrefix, first, segmentSuffix)
}

// The function `segments` lists the files of a log in the order of their entries.
func segments(dir string) ([]segment, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the files of the audit log: %w", err)
	}
	var out []segment
	for _, f := range list {
		number, ok := strings.CutPrefix(f.Name(), segmentPrefix)
		number, rightEnd := strings.CutSuffix(number, segmentSuffix)
		if !ok || !rightEnd {
			continue
		}
		first, err := strconv.ParseUint(number, 10, 64)
		if err != nil || segmentName(first) != f.Name() {
			return nil, fmt.Errorf("the audit-log file %s has an invalid name: a valid name looks like %s", filepath.Join(dir, f.Name()), segmentName(1))
		}
		out = append(out, segment{path: filepath.Join(dir, f.Name()), first: first})
	}
	slices.SortFunc(out, func(a, b segment) int { return cmp.Compare(a.first, b.first) })
	return out, nil
}

// writeSafely writes a file completely or not at all.
func writeSafely(path string, data []byte) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	if err = os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// appendSafely appends a line to a file, or leaves the file unchanged. If a crash left an incomplete line at the end,
// appendSafely first cuts it off.
func appendSafely(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	end, err := lastNewline(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.WriteAt(line, end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Truncate(end) // if this fails, the next call cuts it off
	}
	err = errors.Join(err, f.Close())
	if err == nil && end == 0 {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

// lastNewline returns the offset after the last complete line.
func lastNewline(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	chunk := make([]byte, 4096)
	for end := info.Size(); end > 0; {
		begin := max(end-int64(len(chunk)), 0)
		part := chunk[:end-begin]
		if _, err = f.ReadAt(part, begin); err != nil {
			return 0, err
		}
		if i := strings.LastIndexByte(string(part), '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return 0, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// The function `lock` prevents a second server from opening the log, because two writers would break the hash chain.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the audit log: %w", err)
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another server uses the audit log in %s: set a separate audit.dir for each server (%w)", dir, err), f.Close())
	}
	return f, nil
}
