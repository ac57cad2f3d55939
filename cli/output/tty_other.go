//go:build !unix

package output

import "io"

// IsTerminal returns false on systems on which it cannot detect a terminal.
func IsTerminal(io.Writer) bool { return false }
