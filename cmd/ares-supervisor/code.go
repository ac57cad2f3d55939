//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// furnishCode moves the job's code into SandboxWork, if that is a file system with a fixed size. The agent could only write it beside.
func furnishCode(o *seat.Order) error {
	from := o.Sandbox.Code()
	if from == "" {
		return nil
	}
	if _, err := os.Lstat(from); errors.Is(err, os.ErrNotExist) {
		return nil // the job brings no code
	}
	err := copyDir(from, seat.SandboxWork, o.User)
	if errors.Is(err, syscall.ENOSPC) {
		return errors.New("the job's code does not fit into its working directory, whose size isolation.work_mb or isolation.disk_mb limits: " + err.Error())
	}
	if err != nil {
		return errors.New("copy the job's code: " + err.Error())
	}
	return os.RemoveAll(from)
}

// copyDir copies what is in a directory. Only the agent can write there, and only directories, files and links are in it.
func copyDir(from, to string, owner *seat.User) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := copyEntry(d, from+"/"+d.Name(), to+"/"+d.Name(), owner); err != nil {
			return err
		}
	}
	return nil
}

func copyEntry(d os.DirEntry, from, to string, owner *seat.User) error {
	st, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return errors.Join(os.Symlink(target, to), own(to, owner))
	case st.IsDir():
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		err = copyDir(from, to, owner)
	default:
		err = copyFile(from, to)
	}
	if err == nil {
		err = own(to, owner)
	}
	if err == nil {
		err = os.Chmod(to, st.Mode().Perm())
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func own(path string, owner *seat.User) error {
	if owner == nil {
		return nil
	}
	return os.Lchown(path, int(owner.UID), int(owner.GID))
}
