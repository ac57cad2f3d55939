package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// Leases use a clock that NTP can speed up or slow down. examineClock compares this clock
// with the raw hardware clock.
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
	return []finding{rate("clock", "the NTP-adjusted clock of this machine against its raw clock", float64(steered)/float64(bare)-1, 0)}
}
