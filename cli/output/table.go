package output

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table prints text in aligned columns.
type Table struct {
	Head []string
	Rows [][]string
}

func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// The variable `colors` maps the states of jobs and nodes to terminal colors.
var colors = map[string]string{
	"succeeded": "32", "online": "32", "running": "36", "scheduled": "36", "pending": "33", "retrying": "33",
	"preempted": "33", "suspect": "33", "cordoned": "33", "failed": "31", "lost": "31", "offline": "31", "cancelled": "2",
}

// maxCell is the maximum width of a table cell, in characters. The last cell of
// a row may be wider.
const maxCell = 48

func (t *Table) Write(w io.Writer, color bool) {
	width := make([]int, len(t.Head))
	for i, h := range t.Head {
		width[i] = len(h)
	}
	for _, row := range t.Rows {
		for i := range row {
			row[i] = Clean(row[i])
			if i < len(row)-1 {
				row[i] = Shorten(row[i], maxCell)
			}
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	writeRow(w, t.Head, width, func(_ int, s string) string { return paint(color, "1", s) })
	for _, row := range t.Rows {
		writeRow(w, row, width, func(i int, s string) string {
			if t.Head[i] == "STATE" || t.Head[i] == "OUTCOME" {
				return paint(color, colors[strings.TrimSpace(s)], s)
			}
			return s
		})
	}
}

func writeRow(w io.Writer, cells []string, width []int, dress func(int, string) string) {
	var b strings.Builder
	last := len(cells) - 1
	for last > 0 && cells[last] == "" {
		last--
	}
	for i, cell := range cells[:last+1] {
		if i < last {
			cell += strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			b.WriteString(dress(i, cell) + "  ")
		} else {
			b.WriteString(dress(i, cell))
		}
	}
	Printf(w, "%s\n", b.String())
}

func paint(on bool, code, s string) string {
	if !on || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
