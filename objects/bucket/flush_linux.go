package bucket

import (
	"os"

	"golang.org/x/sys/unix"
)

// flush writes everything to the disk that this machine has written into a directory's file system. One call takes as long
// as a few calls of fsync, and a snapshot can have thousands of new chunks.
func flush(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return nil
}
