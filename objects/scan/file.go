package scan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects/tree"
)

// stamp is what a change of a file changes. The time ctime changes even if a program sets the file's other time back.
type stamp struct {
	size, mtime, ctime int64
	device, inode      uint64
}

func stampOf(st fs.FileInfo) stamp {
	s := stamp{size: st.Size(), mtime: st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.device, s.inode = ctimeOf(sys), uint64(sys.Dev), uint64(sys.Ino)
	}
	return s
}

// openFile opens a file, but neither a link nor, waiting for ever, a named pipe that has replaced the file.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// maxReads is how often a file is read if it changes meanwhile.
const maxReads = 3

// beforeSecondStat is called after a file was read. Tests change files in it.
var beforeSecondStat = func(path string) {}

// digestFile reads a file and sets the digests of its chunks. If the file changes meanwhile, it is read again.
func digestFile(dir string, f *found, buffer []byte) error {
	path := string(f.entry.Path)
	for range maxReads {
		same, err := digestOnce(filepath.Join(dir, path), f, buffer)
		if err != nil {
			return unreadable(path, err)
		}
		if same {
			return nil
		}
	}
	return ares.Errorf(ares.Conflict, "%q changes while it is read: wait until the program that writes it is done, or add it to %s", path, IgnoreFile)
}

func digestOnce(path string, f *found, buffer []byte) (same bool, err error) {
	file, err := openFile(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return false, err
	}
	if !before.Mode().IsRegular() {
		return false, fmt.Errorf("it is %s now", kindName(before.Mode()))
	}
	e := f.entry
	e.Chunks, e.Size, e.Mode, f.stamp = nil, 0, uint32(before.Mode().Perm()), stampOf(before)
	for {
		n, err := readFull(file, buffer)
		if err != nil {
			return false, err
		}
		if n == 0 {
			break
		}
		d := tree.Sum(buffer[:n])
		e.Chunks, e.Size = append(e.Chunks, d[:]), e.Size+int64(n)
		if n < len(buffer) || e.Size > tree.MaxBytes {
			break
		}
	}
	beforeSecondStat(path)
	after, err := file.Stat()
	if err != nil {
		return false, err
	}
	// A file may have been replaced by a rename while it was read. The program that renames it expects readers to see one of both.
	return stampOf(after) == f.stamp && after.Mode() == before.Mode() && e.Size == before.Size(), nil
}

// readFull reads until the buffer is full or the file ends.
func readFull(f *os.File, buffer []byte) (int, error) {
	n, err := io.ReadFull(f, buffer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}

// unreadable is the error of a file or directory that cannot be read.
func unreadable(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return ares.Errorf(ares.Conflict, "%q vanished or was replaced while the directory was read: run the command again, or add it to %s if a program keeps changing it", path, IgnoreFile)
	case errors.Is(err, fs.ErrPermission):
		return ares.Errorf(ares.Forbidden, "%q cannot be read: give yourself permission with chmod, or add it to %s", path, IgnoreFile)
	}
	return ares.Errorf(ares.Invalid, "%q cannot be read (%s): repair it, or add it to %s", path, reason(err), IgnoreFile)
}

// reason returns an error without the path, which the message has already.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
