package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// momentForms are the ways to write a day and a time. Without a zone it is that
// of this machine.
var momentForms = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// readMoment reads a time as people write it: a day and a time, a time of day for
// the next time it is that late after base, +2h for so long after base, or now.
func readMoment(flag, text string, base, now time.Time) (time.Time, error) {
	switch {
	case text == "now":
		return now, nil
	case strings.HasPrefix(text, "+"):
		if d, err := spanOf(text[1:]); err == nil {
			return base.Add(d), nil
		}
	}
	for _, form := range momentForms {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		clock, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		day := base.In(time.Local)
		t := time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, time.Local)
		if t.Before(base) {
			t = time.Date(day.Year(), day.Month(), day.Day()+1, clock.Hour(), clock.Minute(), clock.Second(), 0, time.Local)
		}
		return t, nil
	}
	return time.Time{}, usagef("--%s %q is not a time: write 22:00, 2026-01-31T22:00, 2026-01-31T22:00:00Z or +2h", flag, text)
}

// readSpanWithin is readSpan for a length with bounds, which are written as people do.
func readSpanWithin(flag, text, least, most string) (time.Duration, error) {
	d, err := spanOf(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return readSpan(flag, text)
	}
	from, bad := spanOf(least)
	to, worse := spanOf(most)
	if bad = errors.Join(bad, worse); bad == nil && (err != nil || d < from || d > to) {
		bad = usagef("--%s %s: it must be %s to %s", flag, text, least, most)
	}
	return d, bad
}

// readSpan reads 90m, 4h, 1h30m or 2d.
func readSpan(flag, text string) (time.Duration, error) {
	d, err := spanOf(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, usagef("--%s %s: it is too long: write at most %dd", flag, text, maxDays)
	case err != nil:
		return 0, usagef("--%s %q is not a length of time: write 90m, 4h, 1h30m or 2d", flag, text)
	}
	return d, nil
}

// maxDays is the longest time that is asked for anywhere: ten years.
const maxDays = 3653

// spanOf is a length of time as people write it, more than none.
func spanOf(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		if n, err = strconv.ParseFloat(days, 64); err == nil && n > maxDays {
			err = strconv.ErrRange
		}
		d = time.Duration(min(max(n, 0), maxDays) * 24 * float64(time.Hour)) // none for NaN
	}
	if err == nil && d <= 0 {
		err = strconv.ErrSyntax
	}
	return d, err
}
