package output

import "io"

// Sheet prints an object as a list of lines, each with the name and the value
// of one property.
type Sheet struct{ w io.Writer }

func (s Sheet) Line(name, value string) {
	if value = Clean(value); value != "" {
		Printf(s.w, "%-12s %s\n", name, value)
	}
}

func (s Sheet) List(name string, values []string) {
	for i, v := range values {
		if i > 0 {
			name = ""
		}
		Printf(s.w, "%-12s - %s\n", name, Clean(v))
	}
}

func NewSheet(w io.Writer) Sheet { return Sheet{w} }
