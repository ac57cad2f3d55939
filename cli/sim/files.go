package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/server"
)

// standardOutput is the file name for standard output.
const standardOutput = "-"

// The type `outputFile` is a file that a command writes, and the flag that names it.
type outputFile struct{ flag, name string }

// checkTargets runs before the simulation starts. It checks the output files of `ares sim run`.
func checkTargets(f *simFlags) error {
	return checkOutputs(append([]string{f.trace, f.fleet}, f.policies...), outputFile{"--out", f.out}, outputFile{"--html", f.html})
}

// checkOutputs checks that the output files can be written, and that none of them overwrites an input file or another
// output file.
func checkOutputs(inputs []string, targets ...outputFile) error {
	taken := map[string]string{}
	for _, name := range inputs {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			taken[canonicalPath(name)] = "an input file"
		}
	}
	for _, t := range targets {
		if t.name == "" || t.flag == "--out" && t.name == standardOutput {
			continue
		}
		if err := writable(t.name); err != nil {
			return exit.Usagef("%s: cannot write %s: %s", t.flag, t.name, err)
		}
		if info, err := os.Stat(t.name); err == nil && !info.Mode().IsRegular() {
			continue // writing to a device or a pipe overwrites nothing
		}
		at := canonicalPath(t.name)
		if other := taken[at]; other != "" {
			return exit.Usagef("%s %s would overwrite %s: choose another file", t.flag, t.name, other)
		}
		taken[at] = "the file of " + t.flag
	}
	return nil
}

// canonicalPath returns a path that is the same for all names of a file, such as relative paths and
// symbolic links.
func canonicalPath(name string) string {
	target, _, _, err := server.ResolveTarget(name)
	if err != nil {
		return name
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(target)); err == nil {
		target = filepath.Join(dir, filepath.Base(target))
	}
	if whole, err := filepath.Abs(target); err == nil {
		return whole
	}
	return target
}

// The function `writable` checks whether toFile can write a file. It does not open a pipe, because
// closing the pipe again would signal the end of the data to the reader.
func writable(name string) error {
	target, was, whole, err := server.ResolveTarget(name)
	if err != nil || !whole {
		return err
	}
	if was != nil {
		var file *os.File
		if file, err = os.OpenFile(target, os.O_WRONLY, 0); err != nil {
			return err
		}
		if err = file.Close(); err != nil {
			return err
		}
	}
	temp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*")
	if err != nil {
		return err
	}
	return errors.Join(temp.Close(), os.Remove(temp.Name()))
}

// toFile either writes a file completely or leaves the old file unchanged. toFile keeps the
// permissions of an existing file. If the target is a device or a pipe, toFile writes directly to
// it.
func toFile(name string, write func(io.Writer) error) error {
	buffered := func(w io.Writer) error { return throughBuffer(w, write) }
	target, was, whole, err := server.ResolveTarget(name)
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

// throughBuffer calls the function `write` with a buffer that remembers the first write error. It
// returns this error at the end. The code that prints tables does not check for errors itself.
func throughBuffer(w io.Writer, write func(io.Writer) error) error {
	buffer := bufio.NewWriter(w)
	if err := write(buffer); err != nil {
		return err
	}
	return buffer.Flush()
}

// The function `replace` writes a temporary file and renames it to its final name, which replaces
// an existing file.
func replace(target string, mode os.FileMode, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // after success, the file has already been renamed
	if err := errors.Join(write(temp), temp.Chmod(mode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), target)
}
