package output

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = word
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\$`|&;<>()*?[]{}!#~") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return Shorten(strings.Join(words, " "), 500)
}

func Pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ", ")
}

// DeviceList formats device indexes as ranges, such as 0-3,6.
func DeviceList(indexes []int32) string {
	if len(indexes) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(indexes))
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		} else {
			parts = append(parts, strconv.Itoa(int(sorted[i])))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Amount formats a number with at most three decimals and without trailing zeros.
func Amount(f float64) string { return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) }

// GPUs formats a number of GPUs with its unit.
func GPUs(n float64) string {
	if n == 1 {
		return "1 GPU"
	}
	return Amount(n) + " GPUs"
}

func Count[N int | int32](n N, thing string) string {
	stem, y := strings.CutSuffix(thing, "y")
	switch {
	case n == 1:
		return "1 " + thing
	case y: // such as policy, policies
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Must panics if err is not nil. Use Must only for errors that a mistake in this program causes.
func Must(err error) {
	if err != nil {
		panic("cli: " + err.Error())
	}
}

func Shorten(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Printf prints to w and ignores write errors, because a closed terminal could not show them.
func Printf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}
