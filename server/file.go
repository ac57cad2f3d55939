package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	ares "github.com/ares-scheduler/ares"
)

// ResolveTarget returns the file that a write to a path would create or change. ResolveTarget follows links, even a
// link to a missing file. The result "whole" is false for a device or a pipe. These must be written to directly instead
// of being replaced. The result "was" is nil if nothing exists at the path.
func ResolveTarget(path string) (target string, was fs.FileInfo, whole bool, err error) {
	was, err = os.Stat(path)
	switch {
	case err == nil && was.IsDir():
		return "", was, false, &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case err == nil && !was.Mode().IsRegular():
		return path, was, false, nil
	case err == nil:
		target, err = filepath.EvalSymlinks(path)
		return target, was, true, err
	case !errors.Is(err, fs.ErrNotExist):
		return "", nil, false, err
	}
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil { // neither a file nor a dangling link exists
			return path, nil, true, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", nil, false, &fs.PathError{Op: "write", Path: path, Err: syscall.ELOOP}
}

// maxLinks is the maximum number of dangling links that are followed.
const maxLinks = 40

// WriteWhole writes a file durably and completely, or not at all. WriteWhole replaces an existing file only if `force`
// is set. Only the owner may read the new file, regardless of the old file's mode. WriteWhole writes directly to a
// device or a pipe.
func WriteWhole(path string, force bool, write func(io.Writer) error) (err error) {
	if _, err = os.Lstat(path); err == nil && !force {
		return ares.Errorf(ares.Conflict, "%s exists: name another file, or replace it with --force", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	path, _, whole, err := ResolveTarget(path)
	if err != nil {
		return err
	}
	if !whole {
		return WriteInto(path, write)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // only its owner can read it
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	err = write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if !force {
		// Unlike a rename, a hard link does not replace a file that was created in the meantime.
		if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
			return ares.Errorf(ares.Conflict, "%s was created while this command ran: name another file, or replace the existing file with --force", path)
		} else if err == nil {
			return errors.Join(os.Remove(tmp.Name()), syncDir(dir))
		}
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// WriteInto writes to a device or a pipe.
func WriteInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// syncDir syncs a directory, so that the names in it survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
