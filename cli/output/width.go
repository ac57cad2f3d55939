package output

import (
	"strings"

	"github.com/rivo/uniseg"
)

// Width returns the number of columns that a text takes on a terminal. An emoji or a Chinese character takes two, a
// combining accent none.
func Width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return uniseg.StringWidth(s)
		}
	}
	return len(s)
}

// Cut shortens a text to at most `width` columns. A text that was cut ends with "…".
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	var out strings.Builder
	used, state := 0, -1
	for rest := s; rest != ""; {
		var character string
		var columns int
		character, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+columns > width-1 {
			break
		}
		used += columns
		out.WriteString(character)
	}
	return out.String() + "…"
}

// Pad appends spaces to a text until it takes `width` columns.
func Pad(s string, width int) string { return s + strings.Repeat(" ", max(0, width-Width(s))) }
