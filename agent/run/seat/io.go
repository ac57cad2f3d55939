//go:build linux

package seat

import (
	"errors"
	"os"
	"syscall"
)

// The functions in this file use system calls alone. Package os registers the files that it opens with the runtime's poller, which
// costs the supervisor of a short job more than the files themselves.

// ReadFile reads a file of up to MaxFile bytes.
func ReadFile(path string) ([]byte, error) {
	fd, err := open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	b := make([]byte, 0, 1<<10)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := syscall.Read(fd, b[len(b):cap(b)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n <= 0:
			return b, nil
		default:
			if b = b[:len(b)+n]; len(b) > MaxFile {
				return nil, ErrTorn
			}
		}
	}
}

// WriteFile writes to a file from its beginning. The flags are those of open: without O_CREAT, the file must exist.
func WriteFile(path string, b []byte, flags int, mode uint32) error {
	fd, err := open(path, syscall.O_WRONLY|flags, mode)
	if err != nil {
		return err
	}
	for len(b) > 0 && err == nil {
		var n int
		if n, err = syscall.Write(fd, b); errors.Is(err, syscall.EINTR) {
			n, err = 0, nil
		}
		b = b[max(n, 0):]
	}
	if cerr := syscall.Close(fd); err == nil {
		err = cerr
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func open(path string, flags int, mode uint32) (fd int, err error) {
	for {
		fd, err = syscall.Open(path, flags|syscall.O_CLOEXEC, mode)
		if err == nil {
			return fd, nil
		}
		if err != syscall.EINTR {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}
