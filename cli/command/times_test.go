package command

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
		if got, err := ReadTime("from", text, base, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "25:00", "22", "tomorrow", "+", "+x", "-2h", "2026-13-01"} {
		if got, err := ReadTime("from", text, base, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestReadPast checks that a time of day means its last occurrence.
func TestReadPast(t *testing.T) {
	t.Parallel()
	day := func(d, hour, minute int) time.Time { return time.Date(2026, 1, d, hour, minute, 0, 0, time.Local) }
	now := day(15, 21, 0)
	for text, want := range map[string]time.Time{
		"now": now, "21:00": now, "21:01": day(14, 21, 1), "08:00": day(15, 8, 0), "08:00:00": day(15, 8, 0), "23:30": day(14, 23, 30),
		"2h": day(15, 19, 0), "1d": day(14, 21, 0), "2026-01-31T22:15": day(31, 22, 15), "2026-01-10": day(10, 0, 0),
	} {
		if got, err := ReadPastTime("from", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "25:00", "22", "yesterday", "+2h", "-2h", "99999999h", "2026-13-01"} {
		if got, err := ReadPastTime("from", text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestReadPeriod(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 15, 9, 0, 0, 0, time.Local)
	from, to, err := ReadTimeRange("from", "22:00", "to", "02:00", now)
	if err != nil || !from.AsTime().Equal(now.Add(-11*time.Hour)) || !to.AsTime().Equal(now.Add(-7*time.Hour)) {
		t.Errorf("last night is %s to %s, %v", from.AsTime(), to.AsTime(), err)
	}
	if from, to, err = ReadTimeRange("since", "", "until", "", now); from != nil || to != nil || err != nil {
		t.Errorf("always is %s to %s, %v", from, to, err)
	}
	for _, c := range [][2]string{{"1h", "2h"}, {"1h", "1h"}, {"08:00", "22:00"}} {
		_, _, err = ReadTimeRange("since", c[0], "until", c[1], now)
		if want := "--since " + c[0] + " is not before --until " + c[1]; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSpansAreNoLongerThanTenYears(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"3653d": "", "87672h": "", "3654d": "too long: use at most 3653d", "87673h": "too long: use at most 3653d",
		"99999999h": "too long: use at most 3653d", "1h99999999h": "too long: use at most 3653d", "1e999d": "too long: use at most 3653d",
		"99999999x": "is not a duration", "-1h": "is not a duration", "NaNd": "is not a duration", "1.2.3h": "is not a duration",
	} {
		if d, err := ReadDuration("for", text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %s, %v", text, d, err)
		}
	}
}

func TestSpansWithinBounds(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"1m": true, "7d": true, "90m": true, "59s": false, "8d": false, "30": false, "-1h": false} {
		if d, err := ReadDurationWithin("ttl", text, "1m", "7d"); (err == nil) != ok {
			t.Errorf("%s is %s, %v", text, d, err)
		}
	}
}
