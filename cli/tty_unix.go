//go:build unix

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal says whether w is a terminal: only those have a size.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
