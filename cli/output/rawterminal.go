package output

import (
	"io"
	"os"

	"github.com/charmbracelet/x/term"
)

// MakeRaw turns off what a terminal does with keys itself, such as echo and Ctrl-C, so that a program on another machine gets them. The
// returned function sets the terminal back.
func MakeRaw(in io.Reader) (restore func(), err error) {
	f, ok := in.(*os.File)
	if !ok {
		return func() {}, nil
	}
	state, err := term.MakeRaw(f.Fd())
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(f.Fd(), state) }, nil
}

// TerminalSize returns the number of columns and rows of a terminal.
func TerminalSize(w io.Writer) (columns, rows int) { return terminalSize(w) }
