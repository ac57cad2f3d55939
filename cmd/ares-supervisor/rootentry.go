//go:build linux && (amd64 || arm64)

package main

// rootEntry is the other beginning of this program; see the file userns.go. It is never called.
func rootEntry()

// rootEntryAt is the address of rootEntry.
var rootEntryAt uintptr
