package command

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/cli/exit"
)

// timeLayouts are the accepted formats of a date and time. A time without a zone is in the
// local zone.
var timeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// ReadTime parses a time from a flag. It accepts "now", and a date with or without a time. A time of day means
// its next occurrence after the time `base`, and +2h means two hours after `base`.
func ReadTime(flag, text string, base, now time.Time) (time.Time, error) {
	switch {
	case text == "now":
		return now, nil
	case strings.HasPrefix(text, "+"):
		if d, err := ParseDuration(text[1:]); err == nil {
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
	return time.Time{}, exit.Usagef("--%s %q is not a time: use 22:00, 2026-01-31T22:00, 2026-01-31T22:00:00Z or +2h", flag, text)
}

// ReadPastTime parses a time in the past. A time of day means its last occurrence, and 2h means two hours ago.
func ReadPastTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if ago, err := ParseDuration(text); err == nil && !strings.HasPrefix(text, "+") {
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
	return time.Time{}, exit.Usagef("--%s %q is not a time: use 22:00, 2026-01-31, 2026-01-31T22:00, 2026-01-31T22:00:00Z, or 90m, 4h or 2d ago", flag, text)
}

// ReadTimeRange parses the two flags of a time range; either may be empty.
func ReadTimeRange(fromFlag, from, toFlag, to string, now time.Time) (begin, end *timestamppb.Timestamp, err error) {
	for _, f := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{fromFlag, from, &begin}, {toFlag, to, &end}} {
		if f.text == "" {
			continue
		}
		at, err := ReadPastTime(f.flag, f.text, now)
		if err != nil {
			return nil, nil, err
		}
		*f.to = timestamppb.New(at)
	}
	if begin != nil && end != nil && !begin.AsTime().Before(end.AsTime()) {
		return nil, nil, exit.Usagef("--%s %s is not before --%s %s", fromFlag, from, toFlag, to)
	}
	return begin, end, nil
}

func dayAndTime(text string) (time.Time, bool) {
	for _, form := range timeLayouts {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// timeOfDay parses a time of day. It returns that time on another date, which is the given number of days
// after the time `base`.
func timeOfDay(text string, base time.Time, days int) (time.Time, bool) {
	for _, form := range []string{"15:04", "15:04:05"} {
		if clock, err := time.Parse(form, text); err == nil {
			day := base.In(time.Local)
			return time.Date(day.Year(), day.Month(), day.Day()+days, clock.Hour(), clock.Minute(), clock.Second(), 0, time.Local), true
		}
	}
	return time.Time{}, false
}

// ReadDurationWithin is like ReadDuration, but also checks a minimum and a maximum, which have the
// same format.
func ReadDurationWithin(flag, text, least, most string) (time.Duration, error) {
	d, err := ParseDuration(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return ReadDuration(flag, text)
	}
	from, bad := ParseDuration(least)
	to, worse := ParseDuration(most)
	if bad = errors.Join(bad, worse); bad == nil && (err != nil || d < from || d > to) {
		bad = exit.Usagef("--%s %s: use %s to %s", flag, text, least, most)
	}
	return d, bad
}

// ReadDuration parses a duration given to a flag, such as 90m, 4h, 1h30m or 2d.
func ReadDuration(flag, text string) (time.Duration, error) {
	d, err := ParseDuration(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, exit.Usagef("--%s %s: too long: use at most %dd", flag, text, maxDays)
	case err != nil:
		return 0, exit.Usagef("--%s %q is not a duration: use 90m, 4h, 1h30m or 2d", flag, text)
	}
	return d, nil
}

// maxDays is the maximum, in days, for every flag that takes a duration. The maximum is ten years.
const maxDays = 3653

// durationPattern matches every valid duration text. The pattern is needed to recognize a
// duration that is too long. time.ParseDuration returns the same kind of error for such a
// duration and for an invalid text.
var durationPattern = regexp.MustCompile(`^(\d+(\.\d*)?(h|m|s|ms|us|µs|ns))+$`)

// ParseDuration parses a positive duration, which may be in days. For a duration above maxDays,
// ParseDuration returns strconv.ErrRange.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		d = time.Duration(min(max(n, 0), maxDays+1) * 24 * float64(time.Hour)) // NaN becomes 0
	}
	switch {
	case err != nil && durationPattern.MatchString(text), d > maxDays*24*time.Hour:
		return 0, strconv.ErrRange
	case err == nil && d <= 0:
		return 0, strconv.ErrSyntax
	}
	return d, err
}
