package sim

import (
	"context"
	"fmt"
	"io"
	"os"
)

// openFile opens a file for reading. It rejects a directory. The system can open a directory,
// but reading from it would return an unclear error.
func openFile(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory", name)
	}
	return os.Open(name)
}

// interruptibleReader wraps standard input so that a read ends when the context ends. There
// is no other way to interrupt a read from a terminal. Input that arrives after the context has
// ended is lost, but the process is about to end anyway.
func interruptibleReader(ctx context.Context, from io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, from)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}
