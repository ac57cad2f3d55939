//go:build !linux

package bucket

import "golang.org/x/sys/unix"

// flush writes everything to the disk that this machine has written.
func flush(string) error { return unix.Sync() }
