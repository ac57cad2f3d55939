package server

import (
	"runtime"
	"testing"
	"time"
)

// TestGCPercent checks how much garbage may accumulate beside the live objects.
func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live, perSecond uint64
		want            int
	}{
		{0, 0, 400},
		{8 << 20, 1 << 20, 400},      // small
		{64 << 20, 1 << 20, 50},      // idle
		{64 << 20, 100 << 20, 400},   // busy, and small
		{192 << 20, 100 << 20, 200},  // busy: 384 MiB of garbage
		{200 << 20, 10 << 20, 25},    // 50 MiB
		{1 << 30, 0, 12},             // an eighth
		{8 << 30, 10_000 << 20, 100}, // Go's default
		{384 << 20, 10_000 << 20, 100},
	} {
		if got := gcPercent(c.live, c.perSecond, maxGarbage); got != c.want {
			t.Errorf("gcPercent(%d, %d) = %d, want %d", c.live, c.perSecond, got, c.want)
		}
	}
	if got := gcPercent(128<<20, 100<<20, hubMaxGarbage); got != 100 {
		t.Errorf("a busy hub has %d %% of garbage", got)
	}
}

// TestIdleHeap checks that only a process that allocates little returns its memory.
func TestIdleHeap(t *testing.T) {
	for _, c := range []struct {
		name                      string
		live, unneeded, allocated uint64
		want                      bool
	}{
		{"after a burst", 100 << 20, 300 << 20, 1 << 20, true},
		{"in a burst", 100 << 20, 300 << 20, 400 << 20, false},
		{"little garbage", 10 << 20, 20 << 20, 0, false},
		{"little garbage beside a large heap", 1 << 30, 100 << 20, 0, false},
	} {
		if got := (heapUse{live: c.live, unneeded: c.unneeded}).isIdle(c.allocated); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCollectionsAreNoticed checks that every garbage collection sends a notice, not only the first one.
func TestCollectionsAreNoticed(t *testing.T) {
	collected := make(chan struct{}, 1)
	notifyCollections(collected)
	for i := range 3 {
		deadline := time.After(20 * time.Second)
		for done := false; !done; {
			runtime.GC()
			select {
			case <-collected:
				done = true
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Fatalf("no notice after collection %d", i+1)
			}
		}
	}
	if readHeap().live == 0 {
		t.Error("the size of the live objects is unknown")
	}
}
