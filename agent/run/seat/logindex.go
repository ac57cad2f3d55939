//go:build linux

package seat

import (
	"strings"
	"time"
)

// Beside each log file, the supervisor writes an index that says when the output was written. The index is a list of records of a
// fixed size, ordered by offset. It has the name of the log file with another prefix, and is deleted together with it. An index may be
// missing, incomplete or damaged: then the times of some output are unknown, but the output itself can still be read.
const indexPrefix = "times."

// Stamp is one record of the index. The bytes from Offset to the next record's Offset were written between Time and Time plus Span.
type Stamp struct {
	Offset int64
	Time   int64 // nanoseconds since the Unix epoch
	Span   time.Duration
}

const (
	// StampSize is the size of a record: offset, time, span in milliseconds and a checksum, in little-endian order.
	StampSize = 24
	// StampEvery is the shortest time between two records, and so the precision of the index.
	StampEvery = 100 * time.Millisecond
	// MinIndex and MaxIndex limit the size of an index. In between, an index may have 1/32 of the size of its log file.
	MinIndex, MaxIndex = 170 * StampSize, 43690 * StampSize
)

// IndexLimit returns the maximum size of the index of a log file of the given size.
func IndexLimit(logSize int64) int64 {
	return min(max(logSize/32, MinIndex), MaxIndex) / StampSize * StampSize
}

// IndexName returns the name of the index of the log file that begins at the given offset.
func IndexName(offset int64) string { return IndexOf(LogName(offset)) }

// IndexOf returns the name of the index of a log file.
func IndexOf(log string) string { return indexPrefix + strings.TrimPrefix(log, logPrefix) }

// ParseIndexName parses the result of IndexName. Like ParseLogName, it accepts only the exact spelling.
func ParseIndexName(name string) (offset int64, ok bool) {
	digits, found := strings.CutPrefix(name, indexPrefix)
	if !found {
		return 0, false
	}
	return ParseLogName(logPrefix + digits)
}

// End returns the time at which the bytes of the record were complete.
func (s Stamp) End() int64 {
	const most = 1<<63 - 1
	if s.Time > most-int64(s.Span) {
		return most
	}
	return s.Time + int64(s.Span)
}

// Append appends the encoded record to b.
func (s Stamp) Append(b []byte) []byte {
	at := len(b)
	b = appendNumber(b, uint64(s.Offset), 8)
	b = appendNumber(b, uint64(s.Time), 8)
	b = appendNumber(b, uint64(min(max(s.Span.Milliseconds(), 0), 1<<32-1)), 4)
	return appendNumber(b, uint64(checksum(b[at:])), 4)
}

// ParseStamp decodes the first StampSize bytes of b. It returns false if they are not a record.
func ParseStamp(b []byte) (Stamp, bool) {
	if len(b) < StampSize || number(b[20:24]) != uint64(checksum(b[:20])) {
		return Stamp{}, false
	}
	s := Stamp{int64(number(b[:8])), int64(number(b[8:16])), time.Duration(number(b[16:20])) * time.Millisecond}
	return s, s.Offset >= 0 && s.Time > 0
}

func appendNumber(b []byte, n uint64, size int) []byte {
	for ; size > 0; size-- {
		b, n = append(b, byte(n)), n>>8
	}
	return b
}

func number(b []byte) (n uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n
}

// checksum is FNV-1a. It finds records that were torn by a crash, which is all it is for; its result is never 0 for zeros.
func checksum(b []byte) uint32 {
	sum := uint32(2166136261)
	for _, c := range b {
		sum = (sum ^ uint32(c)) * 16777619
	}
	return sum
}
