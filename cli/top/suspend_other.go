//go:build !unix

package top

// canSuspend returns false on systems without job control.
func canSuspend() bool { return false }
