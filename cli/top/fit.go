package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// gap is the space between two columns.
const gap = 2

// minCut is the smallest useful width of the column that is shortened.
const minCut = 16

// The function `fit` chooses the columns of a list that fit into a number of terminal columns, and their widths. A
// column that is left out has the width 0. The first column is never left out, but it may be shortened. The argument
// `widths` has the width that each column needs.
func fit(columns []column, widths []int, total int) []int {
	out := make([]int, len(columns))
	for i, c := range columns {
		out[i] = min(widths[i], max(total/4, len(c.title)))
		if c.cut {
			out[i] = min(widths[i], max(minCut, len(c.title)))
		}
	}
	for sum(out) > total {
		least := -1
		for i, c := range columns {
			if i > 0 && out[i] > 0 && (least < 0 || c.keep < columns[least].keep) {
				least = i
			}
		}
		if least < 0 {
			out[0] = total
			break
		}
		out[least] = 0
	}
	// The rest of the line goes to the columns that were shortened: first to the one that is cut, then to the most
	// important.
	for {
		best := -1
		for i, c := range columns {
			if out[i] > 0 && out[i] < widths[i] && (best < 0 || c.cut || c.keep > columns[best].keep && !columns[best].cut) {
				best = i
			}
		}
		left := total - sum(out)
		if best < 0 || left <= 0 {
			return out
		}
		out[best] = min(widths[best], out[best]+left)
	}
}

// The function `sum` returns the width of a line with columns of these widths.
func sum(widths []int) int {
	n := -gap
	for _, w := range widths {
		if w > 0 {
			n += w + gap
		}
	}
	return max(n, 0)
}

// The function `cell` shortens or fills a text to a width on the terminal, in which an emoji counts as two columns.
func cell(text string, width int, right bool) string {
	text = ansi.Truncate(text, width, "…")
	space := strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
	if right {
		return space + text
	}
	return text + space
}
