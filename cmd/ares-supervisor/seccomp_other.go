//go:build linux && !amd64 && !arm64

package main

// On other architectures there is no table of system calls, so auditArch is 0 and no filter can be installed.
const (
	auditArch = iota
	sysClone
	sysClone3
	sysUnshare
	sysPersonality
	sysPtrace
	sysSocket
	sysSetns
	sysSeccomp
)

// sysSetns is the number that all newer architectures share.
const sysSetns = 268

var deniedCalls, deniedNamespaceCalls []uint32
