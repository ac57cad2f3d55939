//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// TestIndexThins writes for more than an hour of simulated time. The index must stay within its limit, be ordered, cover every write, and be exact for the
// latest output.
func TestIndexThins(t *testing.T) {
	t.Chdir(t.TempDir())
	var x index
	const log = 64 << 10
	x.begin(seat.LogName(5), log)
	defer x.close()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const writes = 40_000
	written := func(i int64) time.Time { return start.Add(time.Duration(i) * seat.StampEvery) }
	for i := range int64(writes) {
		x.stamp(5+i, written(i))
	}
	b, err := os.ReadFile(seat.IndexName(5))
	if err != nil || int64(len(b)) > seat.IndexLimit(log) || len(b)%seat.StampSize != 0 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	last := seat.Stamp{Offset: -1}
	for i := 0; i < len(b); i += seat.StampSize {
		s, ok := seat.ParseStamp(b[i:])
		if !ok || s.Offset <= last.Offset || s.Time < last.Time {
			t.Fatalf("record %d: %+v %v after %+v", i/seat.StampSize, s, ok, last)
		}
		if last.Offset >= 0 {
			if end := written(s.Offset - 5 - 1); end.UnixNano() > last.End() || written(last.Offset-5).UnixNano() != last.Time {
				t.Fatalf("record %+v does not cover its output, which ended at %v", last, end)
			}
		}
		last = s
	}
	if last.Offset != 5+writes-1 || last.Span != seat.StampEvery {
		t.Errorf("the last record is %+v", last)
	}
	if _, err := os.Stat(newIndexFile); !os.IsNotExist(err) {
		t.Errorf("a temporary file is left: %v", err)
	}
}

// TestIndexOfLostOutput checks that the record of a write that failed is replaced, and that a clock that is set back stops nothing.
func TestIndexOfLostOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	var x index
	x.stamp(0, time.Now()) // without a file, nothing happens
	x.begin(seat.LogName(0), 1<<20)
	defer x.close()
	now := time.Unix(1_800_000_000, 0)
	x.stamp(0, now)
	x.stamp(0, now.Add(time.Second)) // the first write failed
	x.stamp(7, now.Add(time.Second)) // too soon for a record
	x.stamp(9, now.Add(-time.Hour))
	b, err := os.ReadFile(seat.IndexName(0))
	if err != nil || len(b) != 2*seat.StampSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if s, ok := seat.ParseStamp(b); !ok || s.Offset != 0 || s.Time != now.Add(time.Second).UnixNano() {
		t.Errorf("the first record is %+v", s)
	}
	if s, ok := seat.ParseStamp(b[seat.StampSize:]); !ok || s.Offset != 9 {
		t.Errorf("the second record is %+v", s)
	}
}
