package server

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// TuneMemory lets the process use more memory before it collects garbage. A scheduler's heap is small and most of its
// allocations are short-lived. By default, Go collects garbage when the heap has doubled. For a scheduler this would
// cost a quarter of its time. When the process approaches three quarters of the machine's memory, it collects garbage
// as often as needed. The environment variables GOGC and GOMEMLIMIT take precedence.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if total := memoryBytes(); total > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(total / 4 * 3)
	}
}

// memoryBytes returns the size of the machine's memory, or 0 if it cannot be read.
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
