package cli

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
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
	if t, ok := dayAndTime(text); ok {
		return t, nil
	}
	if t, ok := timeOfDay(text, base, 0); ok {
		if t.Before(base) {
			t, _ = timeOfDay(text, base, +1)
		}
		return t, nil
	}
	return time.Time{}, usagef("--%s %q is not a time: write 22:00, 2026-01-31T22:00, 2026-01-31T22:00:00Z or +2h", flag, text)
}

// readPast is readMoment for what has been: a time of day is the last time it was that
// late, and 2h is so long ago.
func readPast(flag, text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if ago, err := spanOf(text); err == nil && !strings.HasPrefix(text, "+") {
		return now.Add(-ago), nil
	}
	if t, ok := dayAndTime(text); ok {
		return t, nil
	}
	if t, ok := timeOfDay(text, now, 0); ok {
		if t.After(now) {
			t, _ = timeOfDay(text, now, -1)
		}
		return t, nil
	}
	return time.Time{}, usagef("--%s %q is not a time: write 22:00, 2026-01-31, 2026-01-31T22:00, 2026-01-31T22:00:00Z, or 90m, 4h or 2d for so long ago", flag, text)
}

// readPeriod reads the flags of a list that choose a time, either of which may be left out.
func readPeriod(fromFlag, from, toFlag, to string, now time.Time) (begin, end *timestamppb.Timestamp, err error) {
	for _, f := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{fromFlag, from, &begin}, {toFlag, to, &end}} {
		if f.text == "" {
			continue
		}
		at, err := readPast(f.flag, f.text, now)
		if err != nil {
			return nil, nil, err
		}
		*f.to = timestamppb.New(at)
	}
	if begin != nil && end != nil && !begin.AsTime().Before(end.AsTime()) {
		return nil, nil, usagef("--%s %s is not before --%s %s", fromFlag, from, toFlag, to)
	}
	return begin, end, nil
}

func dayAndTime(text string) (time.Time, bool) {
	for _, form := range momentForms {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// timeOfDay is when it is so late on the day of base, or some days after.
func timeOfDay(text string, base time.Time, days int) (time.Time, bool) {
	for _, form := range []string{"15:04", "15:04:05"} {
		if clock, err := time.Parse(form, text); err == nil {
			day := base.In(time.Local)
			return time.Date(day.Year(), day.Month(), day.Day()+days, clock.Hour(), clock.Minute(), clock.Second(), 0, time.Local), true
		}
	}
	return time.Time{}, false
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

// spans is how a length of time is written for time.ParseDuration, which does not tell
// one that is too long for it from nonsense.
var spans = regexp.MustCompile(`^(\d+(\.\d*)?(h|m|s|ms|us|µs|ns))+$`)

// spanOf is a length of time as people write it, more than none. It is
// strconv.ErrRange when it is too long.
func spanOf(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(min(max(n, 0), maxDays+1) * 24 * float64(time.Hour)) // none for NaN
	}
	switch {
	case err != nil && spans.MatchString(text), d > maxDays*24*time.Hour:
		return 0, strconv.ErrRange
	case err == nil && d <= 0:
		return 0, strconv.ErrSyntax
	}
	return d, err
}
