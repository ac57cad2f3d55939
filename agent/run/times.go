//go:build linux

package run

import (
	"errors"
	"io"
	"os"

	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/joblog"
)

// Times opens the index of the log file that begins at an offset. The index may be anything: the job may be able to write to the
// seat's directory. The result is nil if there is no usable index.
func (l *logFiles) Times(start int64) joblog.Times {
	f, err := l.root.OpenFile(seat.IndexName(start), os.O_RDONLY|openSafe, 0)
	if err != nil {
		return nil
	}
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
		return &indexFile{f, min(st.Size(), seat.MaxIndex) / seat.StampSize}
	}
	_ = f.Close()
	return nil
}

// indexFile is the index of a log file.
type indexFile struct {
	*os.File
	count int64
}

// Len implements joblog.Times.
func (f *indexFile) Len() int64 { return f.count }

// At implements joblog.Times.
func (f *indexFile) At(i int64) (joblog.Stamp, bool) {
	var b [seat.StampSize]byte
	if n, _ := f.ReadAt(b[:], i*seat.StampSize); n != len(b) {
		return joblog.Stamp{}, false
	}
	s, ok := seat.ParseStamp(b[:])
	return joblog.Stamp(s), ok
}

// Each implements joblog.Times.
func (f *indexFile) Each(from, to int64, each func(joblog.Stamp) bool) error {
	var b [170 * seat.StampSize]byte
	for at := from; at < to; {
		n, err := f.ReadAt(b[:min(int64(len(b)), (to-at)*seat.StampSize)], at*seat.StampSize)
		n -= n % seat.StampSize
		for i := 0; i < n; i += seat.StampSize {
			if s, ok := seat.ParseStamp(b[i:n]); ok && !each(joblog.Stamp(s)) {
				return nil
			}
		}
		if n == 0 || err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at += int64(n / seat.StampSize)
	}
	return nil
}
