package rounds

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// Table prints rows as a Markdown table under a title that includes the machine's load. The first row is the head of
// the table. `make bench` copies what Table prints into docs/reference/performance.md.
func Table(out io.Writer, title string, rows [][]string) error {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n**%s** (load %.4s)\n\n%s", title, load, Markdown(rows))
	return err
}

// Markdown formats rows as a Markdown table whose columns are aligned, so that it can also be read in a terminal.
func Markdown(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 3)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(escape(cell)))
		}
	}
	var text strings.Builder
	for k, row := range rows {
		line(&text, widths, func(i int) string {
			if i < len(row) {
				return escape(row[i])
			}
			return ""
		}, " ")
		if k == 0 {
			line(&text, widths, func(i int) string { return strings.Repeat("-", widths[i]) }, "-")
		}
	}
	return text.String()
}

// escape keeps a cell from ending its column.
func escape(cell string) string { return strings.ReplaceAll(cell, "|", `\|`) }

func line(text *strings.Builder, widths []int, cell func(i int) string, pad string) {
	for i, width := range widths {
		content := cell(i)
		text.WriteString("|" + pad + content + strings.Repeat(pad, width-utf8.RuneCountInString(content)+1))
	}
	text.WriteString("|\n")
}
