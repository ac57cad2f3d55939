package cli

import (
	"context"
	"fmt"
	"io"
	"os"
)

// openFile opens a file to read. A directory opens too, and reading from it would
// then be told in the system's words.
func openFile(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", name)
	}
	return os.Open(name)
}

// abandonable is standard input that is given up when the context ends: nothing
// else wakes who waits for somebody to type. What is read after that is lost, and
// the process is about to end.
func abandonable(ctx context.Context, from io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, from)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}
