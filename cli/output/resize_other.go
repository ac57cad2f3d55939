//go:build !unix

package output

import "os"

// Resized returns a channel that never receives anything, on systems on which it cannot detect a new size.
func Resized() (c <-chan os.Signal, stop func()) { return nil, func() {} }
