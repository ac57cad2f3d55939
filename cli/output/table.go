package output

import (
	"io"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Table is a list in aligned columns. On a terminal it fits the width of the terminal: see layout.
type Table struct {
	Head []string
	// Drop names the columns that a narrow terminal does not show, the least important first.
	Drop []string
	// Wide names the columns that only -o wide, -o csv and --columns show.
	Wide []string
	// Flex names the columns with long text, which are cut to the width of the terminal. The default is the last column.
	Flex []string
	// Passing names the columns that change with time alone, such as the age. --watch does not count them as a change.
	Passing []string
	Rows    [][]string

	Empty string // is printed instead of a table without rows
	Note  string // is printed after the rows

	// Full shows all columns and cuts nothing, for -o wide.
	Full bool
	// NoHeader leaves out the line with the names of the columns.
	NoHeader bool
	// Name is the column that -o name prints. The default is the first one.
	Name string
	// The field `columns` has the indexes of the columns that --columns names. It is nil if the user did not choose.
	columns []int
}

func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// The variable `colors` maps the states of jobs and nodes to terminal colors.
var colors = map[string]string{
	"succeeded": "32", "online": "32", "running": "36", "scheduled": "36", "pending": "33", "retrying": "33",
	"preempted": "33", "suspect": "33", "cordoned": "33", "failed": "31", "lost": "31", "offline": "31", "cancelled": "2", "returned": "2",
}

const (
	// maxCell is the maximum width of a table cell, in columns. The last cell of a row may be wider.
	maxCell = 48
	// minFlex is the width below which a column with long text is not cut while there is a column to leave out.
	minFlex = 16
	// shortID is the length of a shortened job ID: "job-" and 8 characters. Commands accept the beginning of an ID.
	shortID = 12
	gap     = 2 // spaces between two columns
)

// Write prints a table that is not limited to the width of a terminal.
func (t *Table) Write(w io.Writer, color bool) { t.WriteIn(w, color, 0) }

// WriteIn prints the table in `width` columns of a terminal, or without a limit if width is 0.
func (t *Table) WriteIn(w io.Writer, color bool, width int) {
	if len(t.Rows) == 0 && t.Empty != "" {
		Printf(w, "%s\n", t.Empty)
		return
	}
	l := t.layout(width)
	if !t.NoHeader {
		Printf(w, "%s\n", l.header(color))
	}
	for _, row := range l.cells {
		Printf(w, "%s\n", l.row(row, color))
	}
	if t.Note != "" {
		Printf(w, "%s\n", t.Note)
	}
}

// The type `layout` says which columns of a table are printed, and how wide each of them is.
type layout struct {
	t       *Table
	cells   [][]string // the texts of all rows and columns, before they are cut to the width of their column
	natural []int      // the width of the widest cell of each column of Head
	columns []int      // indexes of the printed columns
	widths  []int      // of these columns
	limited bool       // whether the text of a cell is cut to the width of its column
}

// The method `layout` chooses the columns and their widths. It takes three steps until the table fits: it cuts the columns
// with long text, but not below minFlex; it leaves out columns in the order of Drop; it cuts the widest column. Job IDs are
// shortened on a terminal.
func (t *Table) layout(width int) *layout {
	l := &layout{t: t, columns: t.shown(), limited: width > 0 && !t.Full}
	l.prepare()
	l.reset()
	if !l.limited {
		return l
	}
	flex := t.Flex
	if flex == nil {
		flex = t.Head[len(t.Head)-1:]
	}
	drop := t.Drop
	if t.columns != nil {
		drop = nil // the user has chosen
	}
	for !l.shrink(width, func(i int) int {
		if slices.Contains(flex, t.Head[l.columns[i]]) {
			return max(minFlex, Width(t.Head[l.columns[i]]))
		}
		return l.widths[i]
	}) && len(drop) > 0 {
		l.columns = slices.DeleteFunc(slices.Clone(l.columns), func(i int) bool { return t.Head[i] == drop[0] })
		drop = drop[1:]
		l.reset()
	}
	if t.Drop == nil && t.columns == nil {
		return l // not a list: a long line is better than a number without its end
	}
	for !l.shrink(width, l.minimum) && len(l.columns) > 1 {
		l.columns, l.widths = l.columns[:len(l.columns)-1], l.widths[:len(l.widths)-1]
	}
	return l
}

// The method `shown` returns the indexes of the columns that the table has if there is no limit to its width.
func (t *Table) shown() []int {
	if t.columns != nil {
		return t.columns
	}
	var out []int
	for i, name := range t.Head {
		if t.Full || !slices.Contains(t.Wide, name) {
			out = append(out, i)
		}
	}
	return out
}

// idLength returns the length to which job IDs are shortened. Different IDs stay different.
func idLength(cells [][]string) int {
	whole := map[string]bool{}
	for _, row := range cells {
		for _, cell := range row {
			if ares.ValidJobID(cell) {
				whole[cell] = true
			}
		}
	}
	for n := shortID; ; n++ {
		short := map[string]bool{}
		for id := range whole { // order-free: a set
			short[id[:min(n, len(id))]] = true
		}
		if len(short) == len(whole) {
			return n
		}
	}
}

// The method `prepare` sets the texts of the cells and the natural widths of the columns.
func (l *layout) prepare() {
	l.natural = make([]int, len(l.t.Head))
	if !l.t.NoHeader {
		for i, name := range l.t.Head {
			l.natural[i] = Width(name)
		}
	}
	l.cells = make([][]string, len(l.t.Rows))
	for i, row := range l.t.Rows {
		l.cells[i] = make([]string, len(row))
		for k, text := range row {
			l.cells[i][k] = Clean(text)
		}
	}
	ids := 0
	if l.limited {
		ids = idLength(l.cells)
	}
	for _, row := range l.cells {
		for k, text := range row {
			if ids > 0 && ares.ValidJobID(text) {
				text = text[:min(ids, len(text))]
			}
			if !l.t.Full && k < len(l.t.Head)-1 {
				text = Cut(text, maxCell)
			}
			row[k] = text
			l.natural[k] = max(l.natural[k], Width(text))
		}
	}
}

// The method `reset` gives each printed column its natural width.
func (l *layout) reset() {
	l.widths = make([]int, len(l.columns))
	for i, column := range l.columns {
		l.widths[i] = l.natural[column]
	}
}

// The method `minimum` returns the smallest width of a printed column. A column of job IDs is not cut, because no command accepts
// an ID that ends with "…", except if it is the only one.
func (l *layout) minimum(i int) int {
	column := l.columns[i]
	if len(l.columns) > 1 && len(l.t.Rows) > 0 && column < len(l.t.Rows[0]) && ares.ValidJobID(l.t.Rows[0][column]) {
		return l.natural[column]
	}
	return 1
}

// The method `shrink` makes the widest columns smaller until the table has at most `width` columns, but none smaller than its
// minimum. It reports whether the table fits.
func (l *layout) shrink(width int, minimum func(i int) int) bool {
	total := gap * (len(l.widths) - 1)
	for _, w := range l.widths {
		total += w
	}
	for total > width {
		widest := -1
		for i, w := range l.widths {
			if w > minimum(i) && (widest < 0 || w > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		l.widths[widest]--
		total--
	}
	return true
}

func (l *layout) header(color bool) string {
	return l.line(l.t.Head, func(_ int, s string) string { return paint(color, "1", s) })
}

func (l *layout) row(row []string, color bool) string {
	return l.line(row, func(column int, s string) string {
		if name := l.t.Head[column]; name == "STATE" || name == "OUTCOME" {
			return paint(color, colors[strings.TrimSpace(s)], s)
		}
		return s
	})
}

// The method `line` joins the cells of a row. The cells at the end of the line that are empty are left out, and the last cell is
// not padded.
func (l *layout) line(row []string, dress func(column int, s string) string) string {
	cells := make([]string, len(l.columns))
	last := 0
	for i, column := range l.columns {
		if column < len(row) {
			cells[i] = row[column]
		}
		if l.limited {
			cells[i] = Cut(cells[i], l.widths[i])
		}
		if cells[i] != "" {
			last = i
		}
	}
	var b strings.Builder
	for i, cell := range cells[:last+1] {
		if i < last {
			b.WriteString(dress(l.columns[i], Pad(cell, l.widths[i])) + strings.Repeat(" ", gap))
		} else {
			b.WriteString(dress(l.columns[i], cell))
		}
	}
	return b.String()
}

func paint(on bool, code, s string) string {
	if !on || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
