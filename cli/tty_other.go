//go:build !unix

package cli

import "io"

// isTerminal is false where nobody knows.
func isTerminal(io.Writer) bool { return false }
