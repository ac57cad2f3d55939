package trace

import (
	"syscall"
	"time"
	"unsafe"
)

// Now returns the CLOCK_BOOTTIME time. This clock is independent of the wall
// clock and shared by all processes on a machine.
func Now() time.Duration {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("trace: read the time since boot: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}
