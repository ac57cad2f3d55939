package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ares-scheduler/ares/server"
)

// toFile writes a file whole, or leaves what was there. Who may read a file that
// was there may read the new one. A device or a pipe is written to and stays.
func toFile(name string, write func(io.Writer) error) error {
	buffered := func(w io.Writer) error {
		buffer := bufio.NewWriter(w)
		return errors.Join(write(buffer), buffer.Flush())
	}
	target, was, whole, err := server.Landing(name)
	switch {
	case err != nil:
	case !whole:
		err = server.WriteInto(target, buffered)
	default:
		mode := os.FileMode(0o644)
		if was != nil {
			mode = was.Mode().Perm()
		}
		err = replace(target, mode, buffered)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// replace puts a new file where there is none or another one.
func replace(target string, mode os.FileMode, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // gone already when all went well
	if err := errors.Join(write(temp), temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), target)
}
