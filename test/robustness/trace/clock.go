package trace

import (
	"syscall"
	"time"
	"unsafe"
)

// Now is the time of CLOCK_BOOTTIME, which no wrong wall clock touches and
// every process of a machine shares.
func Now() time.Duration {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("trace: read the time since boot: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}
