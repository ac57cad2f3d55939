//go:build unix

package output

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Resized returns a channel that receives a value when the size of the terminal has changed, until stop is called.
func Resized() (c <-chan os.Signal, stop func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	return resized, func() { signal.Stop(resized) }
}
