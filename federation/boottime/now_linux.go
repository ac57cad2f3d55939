package boottime

import "golang.org/x/sys/unix"

// Now reads CLOCK_BOOTTIME.
func Now() Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil { // every Linux that runs Go has this clock
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error())
	}
	return Time(ts.Nano())
}
