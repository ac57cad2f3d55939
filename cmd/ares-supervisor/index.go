//go:build linux

package main

import (
	"os"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The type `index` writes the index of the current log file; see seat.Stamp. A failure never disturbs the output: at worst, the times of
// some output are unknown.
type index struct {
	file  int    // -1 if there is no index
	isNew bool   // the index is not created yet
	name  string // its name
	size  int64  // size of the complete records
	limit int64
	last  seat.Stamp    // the last record, if size > 0
	grain time.Duration // the longest time that a record covered after the last call of `thin`
}

// newIndexFile is the name of an index until it is complete.
const newIndexFile = "times.new"

// The method `begin` begins the index of another log file. The index is created with its first record, because many jobs print nothing.
func (x *index) begin(log string, logSize int64) {
	x.close()
	*x = index{file: -1, isNew: true, name: seat.IndexOf(log), limit: seat.IndexLimit(logSize)}
}

func (x *index) close() {
	if x.name != "" && x.file >= 0 {
		_ = syscall.Close(x.file)
	}
	x.file, x.isNew = -1, false
}

// The method `opened` opens the index if that was not tried before, and reports whether it is open.
func (x *index) opened() bool {
	if x.isNew {
		x.isNew = false
		if fd, err := openIndex(x.name); err == nil {
			x.file = fd
		}
	}
	return x.name != "" && x.file >= 0
}

func openIndex(name string) (int, error) {
	return syscall.Open(name, syscall.O_RDWR|syscall.O_CREAT|syscall.O_TRUNC|syscall.O_CLOEXEC, 0o600)
}

// The method `stamp` records that output will be written at an offset now. It is called before the write, so that a reader never sees
// output whose record is still missing.
func (x *index) stamp(offset int64, now time.Time) {
	if !x.opened() {
		return
	}
	s := seat.Stamp{Offset: offset, Time: now.UnixNano(), Span: seat.StampEvery}
	if passed := s.Time - x.last.Time; x.size > 0 && passed >= 0 && passed < int64(seat.StampEvery) {
		return
	}
	at := x.size
	if at > 0 && x.last.Offset == offset { // the write for which the last record was made has failed
		at -= seat.StampSize
	}
	if at+seat.StampSize > x.limit {
		if !x.thin() {
			x.close()
			return
		}
		at = x.size
	}
	if writeAll(x.file, s.Append(nil), at) {
		x.size, x.last = at+seat.StampSize, s
	}
}

// The method `thin` makes space in a full index. It joins older records whose times are close to each other, until the index is at most
// three quarters full. The newest quarter of the records stays as it is. A crash leaves the old index or the new one.
func (x *index) thin() bool {
	fd, err := openIndex(newIndexFile)
	if err != nil {
		return false
	}
	const most = 365 * 24 * time.Hour
	for x.grain = max(x.grain/2, 2*seat.StampEvery); x.grain < most; x.grain *= 2 { // half of it may be enough this time
		size, ok := x.join(fd, x.grain)
		if !ok {
			break
		}
		if size > x.limit/4*3 {
			continue
		}
		if syscall.Ftruncate(fd, size) != nil || os.Rename(newIndexFile, x.name) != nil {
			break
		}
		_ = syscall.Close(x.file)
		x.file, x.size = fd, size
		return true
	}
	_ = syscall.Close(fd)
	_ = os.Remove(newIndexFile)
	return false
}

// The method `join` writes the records to another file. It joins neighbours that together cover at most the given time.
func (x *index) join(to int, grain time.Duration) (size int64, ok bool) {
	var in [170 * seat.StampSize]byte
	var out []byte
	var open seat.Stamp
	isOpen := false
	keep := x.size / seat.StampSize / 4 * 3 * seat.StampSize // from here on, records stay
	for at := int64(0); at < x.size; {
		n, err := syscall.Pread(x.file, in[:min(int64(len(in)), x.size-at)], at)
		if err == syscall.EINTR {
			continue
		}
		if n -= n % seat.StampSize; err != nil || n <= 0 {
			return 0, false
		}
		for i := 0; i < n; i, at = i+seat.StampSize, at+seat.StampSize {
			s, ok := seat.ParseStamp(in[i:n])
			covers := time.Duration(s.End() - open.Time)
			switch {
			case !ok: // damaged; the record before covers its output
			case isOpen && at < keep && s.Time >= open.Time && covers <= grain:
				open.Span = max(open.Span, covers)
			default:
				if isOpen {
					out = open.Append(out)
				}
				open, isOpen = s, true
			}
		}
		if !writeAll(to, out, size) {
			return 0, false
		}
		size, out = size+int64(len(out)), out[:0]
	}
	if isOpen {
		if !writeAll(to, open.Append(nil), size) {
			return 0, false
		}
		size += seat.StampSize
	}
	return size, true
}

// writeAll writes b at an offset. A write that fails in the middle is overwritten by the next one.
func writeAll(fd int, b []byte, at int64) bool {
	for len(b) > 0 {
		n, err := syscall.Pwrite(fd, b, at)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return false
		}
		b, at = b[n:], at+int64(n)
	}
	return true
}
