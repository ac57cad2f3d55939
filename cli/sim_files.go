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

// standardOutput is the name under which a file is none.
const standardOutput = "-"

// checkTargets finds before the work what could not be written after it, or
// would be written over: what is read, or each other.
func checkTargets(f *simFlags) error {
	taken := map[string]string{}
	inputs := append([]string{f.trace, f.fleet}, f.policies...)
	for _, name := range inputs {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			taken[landed(name)] = "what is read"
		}
	}
	for _, t := range []struct{ flag, name string }{{"--out", f.out}, {"--html", f.html}} {
		if t.name == "" || t.flag == "--out" && t.name == standardOutput {
			continue
		}
		if err := writable(t.name); err != nil {
			return usagef("%s: cannot write %s: %s", t.flag, t.name, err)
		}
		if info, err := os.Stat(t.name); err == nil && !info.Mode().IsRegular() {
			continue // a device or a pipe takes anything
		}
		at := landed(t.name)
		if other := taken[at]; other != "" {
			return usagef("%s %s would be written over %s: name another file", t.flag, t.name, other)
		}
		taken[at] = "that of " + t.flag
	}
	return nil
}

// landed is one name for a file that may have several.
func landed(name string) string {
	target, _, _, err := server.Landing(name)
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

// writable tries whether toFile could write a file. A pipe is not opened for it:
// whoever reads it would take that for all.
func writable(name string) error {
	target, was, whole, err := server.Landing(name)
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

// toFile writes a file whole, or leaves what was there. Who may read a file that
// was there may read the new one. A device or a pipe is written to and stays.
func toFile(name string, write func(io.Writer) error) error {
	buffered := func(w io.Writer) error { return throughBuffer(w, write) }
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

// throughBuffer writes with an error at the end for whatever went wrong on the
// way: who writes a table does not look.
func throughBuffer(w io.Writer, write func(io.Writer) error) error {
	buffer := bufio.NewWriter(w)
	if err := write(buffer); err != nil {
		return err
	}
	return buffer.Flush()
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
