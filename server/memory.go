package server

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// TuneMemory lets the process use more memory before it collects garbage: a
// scheduler's heap is small and what it allocates dies young, so collecting at
// twice the live heap, Go's default, costs a quarter of its time. Near three
// quarters of the machine's memory it collects as often as it must. GOGC and
// GOMEMLIMIT in the environment win.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if total := memoryBytes(); total > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(total / 4 * 3)
	}
}

// memoryBytes is the machine's memory, 0 when it cannot be read.
func memoryBytes() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
