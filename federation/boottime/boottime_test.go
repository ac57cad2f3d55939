package boottime_test

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/federation/boottime"
)

// TestNow checks that the clock only grows, and no faster than the clock of package time on a machine that is not suspended.
func TestNow(t *testing.T) {
	before := time.Now()
	first := boottime.Now()
	last := first
	for range 1000 {
		now := boottime.Now()
		if now.Sub(last) < 0 {
			t.Fatalf("%d follows %d", now, last)
		}
		last = now
	}
	if took, most := last.Sub(first), time.Since(before); took > most+time.Second {
		t.Errorf("%s passed, and %s on the clock of package time", took, most)
	}
	if first.IsZero() || first.Add(time.Second).Sub(first) != time.Second {
		t.Errorf("the first reading is %d", first)
	}
}
