//go:build linux && !amd64 && !arm64

package main

// rootEntryAt is 0 on architectures without the other beginning of this program; see the file userns.go.
var rootEntryAt uintptr
