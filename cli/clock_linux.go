package cli

import (
	"time"

	"golang.org/x/sys/unix"
)

// examineClock compares the clock that leases are measured by, which NTP may
// speed up or slow down, with the bare one, over a while.
func examineClock() []finding {
	read := func(id int32) time.Duration {
		var ts unix.Timespec
		if unix.ClockGettime(id, &ts) != nil {
			return 0
		}
		return time.Duration(ts.Nano())
	}
	const while = 2 * time.Second
	steered, bare := read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_MONOTONIC_RAW)
	time.Sleep(while)
	steered, bare = read(unix.CLOCK_BOOTTIME)-steered, read(unix.CLOCK_MONOTONIC_RAW)-bare
	if steered <= 0 || bare <= 0 {
		return []finding{{What: "clock", State: note, Detail: "this machine's clocks cannot be compared"}}
	}
	return []finding{rate("clock", "this machine, as NTP steers it, beside its bare clock", float64(steered)/float64(bare)-1, 0)}
}
