//go:build !unix

package output

import (
	"io"
	"os"
)

// IsTerminal returns false on systems on which it cannot detect a terminal.
func IsTerminal(io.Writer) bool { return false }

func terminalSize(io.Writer) (columns, rows int) { return 80, 24 }

type terminalSignals struct{ resized, suspend, hangup chan os.Signal }

func newTerminalSignals() *terminalSignals { return &terminalSignals{} }

func (*terminalSignals) suspendSelf() {}

func (*terminalSignals) stop() {}
