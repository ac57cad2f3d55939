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

// Landing is where writing to a path ends: links are followed, one that leads to
// nothing yet too. whole is false where a device or a pipe stands: it is to be
// written to and not to be replaced. was is nil for what is not there.
func Landing(path string) (target string, was fs.FileInfo, whole bool, err error) {
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
		if err != nil { // nothing, and no link to nothing
			return path, nil, true, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", nil, false, &fs.PathError{Op: "write", Path: path, Err: syscall.ELOOP}
}

// maxLinks is how many links are followed to where there is nothing.
const maxLinks = 40

// WriteWhole makes a file that is there whole, durable, or not at all. A file
// that is there already is kept unless force is set. Only its owner may read
// it, whatever was there. A device or a pipe is written to as it is.
func WriteWhole(path string, force bool, write func(io.Writer) error) (err error) {
	if _, err = os.Lstat(path); err == nil && !force {
		return ares.Errorf(ares.Conflict, "%s exists: name another file, or replace it with --force", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	path, _, whole, err := Landing(path)
	if err != nil {
		return err
	}
	if !whole {
		return WriteInto(path, write)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // readable for its owner alone
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
		// Unlike a rename, a link does not replace a file that came meanwhile.
		if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
			return ares.Errorf(ares.Conflict, "%s exists by now: name another file, or replace it with --force", path)
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

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
