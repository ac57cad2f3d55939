package output

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/cli/exit"
)

// columnKey returns the name of a column as the user types it: "FREE GPUS" is free-gpus.
func columnKey(name string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(name))
}

// The method `column` returns the index of the column that the user names.
func (t *Table) column(flag, text string) (int, error) {
	i := slices.IndexFunc(t.Head, func(name string) bool { return columnKey(name) == columnKey(text) })
	if i < 0 {
		var names []string
		for _, name := range t.Head {
			names = append(names, columnKey(name))
		}
		return 0, exit.Usagef("--%s %s: there is no such column: use %s", flag, Clean(text), strings.Join(names, ", "))
	}
	return i, nil
}

// The method `sort` orders the rows by the column that the user names. A "-" before the name reverses the order.
func (t *Table) sort(by string) error {
	name, reversed := strings.CutPrefix(by, "-")
	column, err := t.column("sort", name)
	if err != nil {
		return err
	}
	slices.SortStableFunc(t.Rows, func(a, b []string) int {
		order := compareCells(a[column], b[column])
		if reversed {
			return -order
		}
		return order
	})
	return nil
}

// compareCells compares two cells of one column. Amounts and durations are compared by their value, and come before other texts.
func compareCells(a, b string) int {
	x, isX := cellValue(a)
	y, isY := cellValue(b)
	switch {
	case isX && isY && x != y:
		return cmp.Compare(x, y)
	case isX != isY && isX:
		return -1
	case isX != isY:
		return 1
	}
	return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
}

// cellValue returns the value of a cell that is a duration such as 2h05m, or that begins with a number, such as 4/16, 2x4 or 12.5 %.
func cellValue(text string) (float64, bool) {
	text = strings.TrimSuffix(text, " ago")
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.' || end == 0 && text[end] == '-') {
		end++
	}
	n, err := strconv.ParseFloat(text[:end], 64)
	if err != nil {
		return 0, false
	}
	rest := text[end:]
	if each, ok := strings.CutPrefix(rest, "x"); ok { // 2x4 is 8
		m, isNumber := cellValue(each)
		return n * m, isNumber
	}
	if rest == "" || strings.ContainsAny(rest[:1], " /%") {
		return n, true
	}
	days := 0.0
	if after, ok := strings.CutPrefix(rest, "d"); ok { // ParseDuration knows no days
		days, text = n, after
	}
	d, err := time.ParseDuration(text)
	return days*86400 + d.Seconds(), err == nil
}
