package cli

import (
	"strings"
	"testing"
	"time"
)

func TestReadMoment(t *testing.T) {
	t.Parallel()
	day := func(d, hour, minute int) time.Time { return time.Date(2026, 1, d, hour, minute, 0, 0, time.Local) }
	now, base := day(15, 21, 0), day(15, 22, 0)
	for text, want := range map[string]time.Time{
		"now": now, "+2h": day(16, 0, 0), "+1d": day(16, 22, 0), "22:00": base, "23:30": day(15, 23, 30), "02:00": day(16, 2, 0),
		"2026-01-31T22:15": day(31, 22, 15), "2026-01-31 22:15": day(31, 22, 15), "2026-01-31T22:15:00": day(31, 22, 15), "2026-01-31": day(31, 0, 0),
		"2026-01-31T22:15:00Z": time.Date(2026, 1, 31, 22, 15, 0, 0, time.UTC),
	} {
		if got, err := readMoment("from", text, base, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "25:00", "22", "tomorrow", "+", "+x", "-2h", "2026-13-01"} {
		if got, err := readMoment("from", text, base, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// What a list is asked for has been: a time of day is the last time it was that late.
func TestReadPast(t *testing.T) {
	t.Parallel()
	day := func(d, hour, minute int) time.Time { return time.Date(2026, 1, d, hour, minute, 0, 0, time.Local) }
	now := day(15, 21, 0)
	for text, want := range map[string]time.Time{
		"now": now, "21:00": now, "21:01": day(14, 21, 1), "08:00": day(15, 8, 0), "08:00:00": day(15, 8, 0), "23:30": day(14, 23, 30),
		"2h": day(15, 19, 0), "1d": day(14, 21, 0), "2026-01-31T22:15": day(31, 22, 15), "2026-01-10": day(10, 0, 0),
	} {
		if got, err := readPast("from", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "25:00", "22", "yesterday", "+2h", "-2h", "99999999h", "2026-13-01"} {
		if got, err := readPast("from", text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestReadPeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 9, 0, 0, 0, time.Local)
	from, to, err := readPeriod("from", "22:00", "to", "02:00", now)
	if err != nil || !from.AsTime().Equal(now.Add(-11*time.Hour)) || !to.AsTime().Equal(now.Add(-7*time.Hour)) {
		t.Errorf("last night is %s to %s, %v", from.AsTime(), to.AsTime(), err)
	}
	if from, to, err = readPeriod("since", "", "until", "", now); from != nil || to != nil || err != nil {
		t.Errorf("always is %s to %s, %v", from, to, err)
	}
	for _, c := range [][2]string{{"1h", "2h"}, {"1h", "1h"}, {"08:00", "22:00"}} {
		_, _, err = readPeriod("since", c[0], "until", c[1], now)
		if want := "--since " + c[0] + " is not before --until " + c[1]; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSpansAreNoLongerThanTenYears(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"3653d": "", "87672h": "", "3654d": "it is too long: write at most 3653d", "87673h": "it is too long: write at most 3653d",
		"99999999h": "it is too long: write at most 3653d", "1h99999999h": "it is too long: write at most 3653d", "1e999d": "it is too long: write at most 3653d",
		"99999999x": "is not a length of time", "-1h": "is not a length of time", "NaNd": "is not a length of time", "1.2.3h": "is not a length of time",
	} {
		if d, err := readSpan("for", text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %s, %v", text, d, err)
		}
	}
}

func TestSpansWithinBounds(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"1m": true, "7d": true, "90m": true, "59s": false, "8d": false, "30": false, "-1h": false} {
		if d, err := readSpanWithin("ttl", text, "1m", "7d"); (err == nil) != ok {
			t.Errorf("%s is %s, %v", text, d, err)
		}
	}
}

// What is yet to come is not "0.0s ago".
func TestTimesToCome(t *testing.T) {
	t.Parallel()
	a, _ := testApp()
	for seconds, want := range map[int]string{-3700: "(1h01m ago)", 0: "(0.0s ago)", 1: "(0.0s ago)", 3700: "(in 1h01m)", 90 * 24 * 3600: "(in 90d00h)"} {
		if got := a.when(at(seconds)); !strings.HasSuffix(got, want) {
			t.Errorf("%d s from now is %s, want %s", seconds, got, want)
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
