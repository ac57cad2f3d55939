package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/client/tree"
)

// CopyOptions describe a copy between this machine and a running job. Files are copied by the program tar in the job.
type CopyOptions struct {
	Rank int
	// Skipped is called for each entry that is not copied, with the reason. It must not be nil.
	Skipped func(name, why string)
	// Copied counts the bytes that were transferred. It may be nil.
	Copied *atomic.Int64
	// Recorded is called if the server records what is copied. It may be called more than once, and may be nil.
	Recorded func()
}

// copyHint ends errors about tar.
const copyHint = "copying needs the program tar on the node, or in the job's image; for one file, use: ares exec JOB -- cat FILE > FILE"

// CopyFrom copies a file or directory of a running job to this machine. If `local` is a directory, the copy is created in it; otherwise, it
// gets this name. A relative path in the job is below its working directory. What the job sends is written nowhere else.
func (c *Client) CopyFrom(ctx context.Context, id, remote, local string, o CopyOptions) error {
	dir, from := splitRemote(remote)
	root, to, err := openTarget(local, from)
	if err != nil {
		return err
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, in := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := tree.Unpack(out, root, from, to, o.Skipped)
		if err == nil || errors.Is(err, tree.ErrMissing) { // a tar ends with padding; tar in the job says why it is empty
			_, drained := io.Copy(io.Discard, out)
			err = errors.Join(err, drained)
		}
		_ = out.CloseWithError(err)
		unpacked <- err
	}()
	failed := c.tar(ctx, id, o, nil, in, "-cf", "-", "-C", dir, "./"+from)
	_ = in.CloseWithError(io.EOF)
	err = <-unpacked
	if failed != nil && (err == nil || !errors.Is(failed, err)) {
		return failed // the tar was cut
	}
	return err
}

// CopyTo copies a file or directory of this machine to a running job. If `remote` is a directory, the copy is created in it; otherwise, it
// gets this name.
func (c *Client) CopyTo(ctx context.Context, id, local, remote string, o CopyOptions) error {
	name := baseOf(filepath.ToSlash(local))
	if _, err := os.Stat(local); err != nil {
		return ares.Errorf(ares.Invalid, "%v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := CopyOptions{Rank: o.Rank}
	dir := remote
	if err := c.tar(ctx, id, quiet, nil, io.Discard, "-cf", "-", "--no-recursion", "-C", remote, "."); err != nil { // it is no directory
		if _, isTar := errors.AsType[*tarError](err); !isTar {
			return err
		}
		if strings.HasSuffix(remote, "/") {
			return ares.Errorf(ares.Conflict, "the directory %s does not exist in the job: create it, for example with: ares exec JOB -- mkdir %s", remote, remote)
		}
		dir, name = splitRemote(remote)
	}
	out, in := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := tree.Pack(in, local, name, o.Skipped)
		if err != nil {
			cancel() // without this, tar in the job would take what it got for all
		}
		_ = in.CloseWithError(err)
		packed <- err
	}()
	failed := c.tar(ctx, id, o, out, io.Discard, "-xof", "-", "-C", dir)
	_ = out.CloseWithError(io.ErrClosedPipe)
	if err := <-packed; err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return failed
}

// tarError is a failure of tar in the job.
type tarError struct{ code, why string }

func (e *tarError) Error() string { return "tar in the job failed (" + e.code + "): " + e.why }

// The method `tar` runs tar in the job.
func (c *Client) tar(ctx context.Context, id string, o CopyOptions, in io.Reader, out io.Writer, args ...string) error {
	var errs lastWords
	if o.Copied != nil && in != nil {
		in = &countedReader{in, o.Copied}
	} else if o.Copied != nil {
		out = &countedWriter{out, o.Copied}
	}
	res, err := c.Exec(ctx, id, ExecOptions{Rank: o.Rank, Argv: append([]string{"tar"}, args...), Input: in, Output: out, Errors: &errs, Recorded: o.Recorded})
	switch {
	case err != nil && strings.Contains(err.Error(), "command not found: tar"):
		return ares.Errorf(ares.Conflict, "%v: %s", err, copyHint)
	case err != nil:
		return err
	case res.Signal != 0:
		return &tarError{fmt.Sprintf("signal %d", res.Signal), errs.text()}
	case res.ExitCode != 0:
		return &tarError{fmt.Sprintf("exit code %d", res.ExitCode), errs.text()}
	}
	return nil
}

// splitRemote returns the directory of a path in the job, and its name there. The name "." stands for what is in the directory.
func splitRemote(remote string) (dir, name string) {
	if name = baseOf(remote); name == "." {
		return remote, name
	}
	return path.Dir(path.Clean(remote)), name
}

// baseOf returns the last name of a path, or "." if the path ends with "." or "..", or is a root.
func baseOf(name string) string {
	if strings.HasSuffix(name, "/.") {
		return "."
	}
	base := path.Base(name)
	if base == ".." || base == "/" {
		return "."
	}
	return base
}

// openTarget opens the local directory in which a copy is created, and returns the name of the copy there.
func openTarget(local, name string) (*os.Root, string, error) {
	st, err := os.Stat(local)
	dir := local
	switch {
	case err == nil && st.IsDir():
	case err == nil, errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(local, "/"):
		dir, name = filepath.Dir(local), filepath.Base(local)
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", ares.Errorf(ares.Invalid, "the directory %s does not exist: create it, or leave out the / at its end", local)
	default:
		return nil, "", ares.Errorf(ares.Invalid, "%v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", ares.Errorf(ares.Invalid, "%v: create the directory first", err)
	}
	return root, name, nil
}

// maxLastWords is how much of a failed command's errors is kept.
const maxLastWords = 1 << 10

// lastWords keeps the first part of what a command writes to its standard error.
type lastWords struct{ b []byte }

func (l *lastWords) Write(b []byte) (int, error) {
	l.b = append(l.b, b[:min(len(b), maxLastWords-len(l.b))]...)
	return len(b), nil
}

func (l *lastWords) text() string {
	return strings.ReplaceAll(strings.TrimSpace(string(l.b)), "\n", "; ")
}

type countedReader struct {
	io.Reader
	n *atomic.Int64
}

func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n.Add(int64(n))
	return n, err
}

type countedWriter struct {
	io.Writer
	n *atomic.Int64
}

func (w *countedWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.n.Add(int64(n))
	return n, err
}
