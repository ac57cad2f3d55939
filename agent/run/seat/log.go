//go:build linux

package seat

import (
	"strconv"
	"strings"
)

// The output of a job is one stream of bytes. The stream is stored in files. Each file is named after the stream offset of its first
// byte, so a reader keeps its position across a rotation.
const (
	logPrefix = "log."
	logDigits = "00000000000000000000"
)

// LogName returns the name of the log file that begins at the given offset.
func LogName(offset int64) string {
	s := strconv.FormatInt(offset, 10)
	return logPrefix + logDigits[len(s):] + s
}

// ParseLogName parses the result of LogName. ParseLogName accepts only the exact spelling, because a file with another spelling would be
// listed but never found.
func ParseLogName(name string) (offset int64, ok bool) {
	digits, _ := strings.CutPrefix(name, logPrefix)
	offset, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || offset < 0 || LogName(offset) != name {
		return 0, false
	}
	return offset, true
}
