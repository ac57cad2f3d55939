package spec

import (
	"fmt"
	"strings"
)

// SourceFaults compares the rows with the document they quote. Every text must
// stand there, and every line of a code block must stand in a row. Spaces and
// characters outside ASCII do not count, because the documents have damaged ones.
func (d *Document) SourceFaults(source string) []string {
	var found []string
	whole := squeeze(source)
	var quoted strings.Builder
	for i := range d.Rows {
		r := &d.Rows[i]
		text := squeeze(r.Text)
		quoted.WriteString(text + "\n")
		if !strings.Contains(whole, text) {
			found = append(found, fmt.Sprintf("%s: %s: the text is not in the document", d.Number, r.Name()))
		}
	}
	all := quoted.String()
	block, inside := "", false
	for n, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		if language, fence := strings.CutPrefix(line, "```"); fence {
			block, inside = language, !inside
			continue
		}
		text := squeeze(line)
		if !inside || block == "" || len(text) < 4 || strings.HasPrefix(line, "#") {
			continue // drawings have no language, and a comment is no command
		}
		if !strings.Contains(all, text) {
			found = append(found, fmt.Sprintf("%s: line %d of the document is in no row: %s", d.Number, n+1, line))
		}
	}
	return found
}

// squeeze removes spaces and characters outside ASCII.
func squeeze(text string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c > '~' {
			return -1
		}
		return c
	}, text)
}
