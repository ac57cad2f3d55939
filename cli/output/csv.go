package output

import (
	"slices"
	"strconv"
)

func FixedPoint(f float64) string { return strconv.FormatFloat(f, 'f', 6, 64) }

// CSVCell prevents a spreadsheet from evaluating a user's text as a formula.
func CSVCell(s string) string {
	if s != "" && slices.Contains([]byte("=+-@\t\r"), s[0]) {
		return "'" + s
	}
	return s
}
