package sim

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/sim"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	now := time.Unix(0, 0)
	a := &commands{&command.App{Printer: output.Printer{Err: &stderr, Now: func() time.Time { return now }}}}
	b := a.newProgress(t.Context(), 2)
	tick := b.begin("fifo", 7, 0)
	p := sim.Progress{Now: 36 * time.Hour, Done: 250, Total: 1000, Waiting: 3}
	for range 10 * looksApart {
		now = now.Add(10 * time.Millisecond)
		if !tick(p) {
			t.Fatal("it was ended")
		}
	}
	if want := " 25 %  simulated 36h00m  3 waiting  49 events/s  15s left  1/2 fifo seed 7\n"; stderr.String() != want {
		t.Errorf("%q, want %q", stderr.String(), want)
	}
}

func TestSeedsAndSpans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint64{"3": {3}, "1-3": {1, 2, 3}, "1, 7-8": {1, 7, 8}, "18446744073709551615": {1<<64 - 1}} {
		if got, err := parseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "3-1", "1-", "-1", "1,1", "1-5,3", "0-1000", "0-18446744073709551615"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"": 0, "90m": 90 * time.Minute, "72h": 72 * time.Hour, "14d": 14 * 24 * time.Hour, "0.5d": 12 * time.Hour} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "-1h", "0", "d", "-3d", "nand", "infd", "1e300d"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestSupposedWindows(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 21, 0, 0, 0, time.UTC)
	got, err := supposedWindows([]string{"nodes=a,b; from=+2h; for=4h; drain", "selector=pool=fast;tenant=t;until=+1h; name=x"}, now)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if r := got[0]; r.Name != "what-if-1" || !r.From.Equal(now.Add(2*time.Hour)) || !r.Until.Equal(now.Add(6*time.Hour)) || !r.Drain || len(r.Nodes) != 2 {
		t.Errorf("read %+v", r)
	}
	if r := got[1]; r.Name != "x" || r.Tenant != "t" || !r.From.Equal(now) || r.Selector["pool"] != "fast" {
		t.Errorf("read %+v", r)
	}
	for _, text := range []string{"nodes=a", "nodes=a;for=x", "for=1h", "nodes=a;for=1h;colour=red", "selector=x;for=1h", "domain=l1;for=1h"} {
		if _, err := supposedWindows([]string{text}, now); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
