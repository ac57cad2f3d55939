//go:build linux

package seat

import (
	"strconv"
	"strings"
)

// The output of a job is one stream of bytes. Each file of it is named after the stream
// offset of its first byte, so a reader keeps its place over a rotation.
const (
	logPrefix = "log."
	logDigits = "00000000000000000000"
)

// LogName is the name of the log file that begins at offset.
func LogName(offset int64) string {
	s := strconv.FormatInt(offset, 10)
	return logPrefix + logDigits[len(s):] + s
}

// ParseLogName reads what LogName wrote.
func ParseLogName(name string) (offset int64, ok bool) {
	digits, ok := strings.CutPrefix(name, logPrefix)
	if !ok || len(digits) != len(logDigits) {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && offset >= 0
}
