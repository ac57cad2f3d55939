package output

import (
	"context"
	"encoding/csv"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/cli/exit"
)

var listFormats = []string{"table", "wide", "name", "csv", "json", "yaml"}

// AddRows adds the output flags of a command that prints a list.
func (o *Flags) AddRows(c *cobra.Command) *cobra.Command {
	f := c.Flags()
	f.StringVarP(&o.Format, "output", "o", "table", "table, wide, name, csv, json or yaml")
	f.StringSliceVar(&o.columns, "columns", nil, "columns to print, such as id,state")
	f.StringVar(&o.sort, "sort", "", "column to sort by; -COLUMN for the reverse order")
	f.BoolVar(&o.noHeader, "no-header", false, "leave out the names of the columns")
	Must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(listFormats, cobra.ShellCompDirectiveNoFileComp)))
	before := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := o.checkRows(); err != nil {
			return err
		}
		return before(c, args)
	}
	return c
}

// AddList is like AddRows, and also adds --watch.
func (o *Flags) AddList(c *cobra.Command) *cobra.Command {
	o.AddRows(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "show changes until interrupted")
	return c
}

func (o *Flags) checkRows() error {
	switch {
	case !slices.Contains(listFormats, o.Format):
		return exit.Usagef("--output %s: use table, wide, name, csv, json or yaml", o.Format)
	case o.Format == "wide":
		o.Format, o.Wide = "table", true
	case o.isDocument() && (o.columns != nil || o.sort != "" || o.noHeader):
		return exit.Usagef("--columns, --sort and --no-header have no effect with -o %s: use -o table, wide or csv, or leave them out", o.Format)
	case o.Format == "name" && o.columns != nil:
		return exit.Usagef("-o name prints one column: leave out --columns, or use -o table --no-header")
	}
	return nil
}

// isDocument reports whether the output is a whole answer, not a table.
func (o *Flags) isDocument() bool { return o.Format == "json" || o.Format == "yaml" }

// List prints a list once, or until it is interrupted if the user wants to watch it. The function `table` makes a table of
// the answer.
func (a *Printer) List(ctx context.Context, o *Flags, fetch func(context.Context) (proto.Message, error), table func(proto.Message) *Table) error {
	switch {
	case !o.watch:
		m, err := fetch(ctx)
		if err != nil {
			return err
		}
		return a.PrintList(o, m, table)
	case o.isDocument():
		return a.Show(ctx, o, fetch, nil)
	case a.Redraws(o):
		return a.watchScreen(ctx, o, fetch, table)
	}
	return a.watchLines(ctx, o, fetch, table)
}

// PrintList prints a list once.
func (a *Printer) PrintList(o *Flags, m proto.Message, table func(proto.Message) *Table) error {
	if o.isDocument() {
		return a.Print(o, m, nil)
	}
	return a.PrintRows(o, table(m))
}

// PrintListValue is like PrintList, for a Go value instead of a protobuf message.
func (a *Printer) PrintListValue(o *Flags, v any, t *Table) error {
	if o.isDocument() {
		return a.PrintValue(o.Format, v, nil)
	}
	return a.PrintRows(o, t)
}

// PrintRows prints a table with the columns, in the order and in the format that the user wants. The format is not JSON or YAML.
func (a *Printer) PrintRows(o *Flags, t *Table) error {
	if err := o.apply(t); err != nil {
		return err
	}
	return a.Buffered(func(w io.Writer) {
		switch o.Format {
		case "name":
			t.writeNames(w)
		case "csv":
			t.writeCSV(w)
		default:
			a.WriteTable(w, t)
		}
	})
}

// WriteTable prints a table that fits the terminal.
func (a *Printer) WriteTable(w io.Writer, t *Table) { t.WriteIn(w, a.Color, a.columns()) }

// The method `columns` returns the width of the terminal, or 0 if the output is not a terminal.
func (a *Printer) columns() int {
	if !a.TTY {
		return 0
	}
	columns, _ := terminalSize(a.Out)
	return columns
}

// The method `apply` gives a table the columns and the order that the user wants.
func (o *Flags) apply(t *Table) error {
	t.Full, t.NoHeader = o.Wide, o.noHeader
	for _, name := range o.columns {
		i, err := t.column("columns", name)
		if err != nil {
			return err
		}
		t.columns = append(t.columns, i)
	}
	if o.sort == "" {
		return nil
	}
	return t.sort(o.sort)
}

func (t *Table) writeNames(w io.Writer) {
	column := max(0, slices.Index(t.Head, t.Name))
	for _, row := range t.Rows {
		Printf(w, "%s\n", Clean(row[column]))
	}
}

// writeCSV prints all columns, unless the user has chosen some, and cuts no text.
func (t *Table) writeCSV(w io.Writer) {
	out := csv.NewWriter(w)
	columns := t.columns
	if columns == nil {
		for i := range t.Head {
			columns = append(columns, i)
		}
	}
	write := func(row []string, form func(string) string) {
		cells := make([]string, len(columns))
		for i, column := range columns {
			if column < len(row) {
				cells[i] = form(row[column])
			}
		}
		Must(out.Write(cells)) // to memory, or the error is that of Flush
	}
	if !t.NoHeader {
		write(t.Head, func(s string) string { return strings.ReplaceAll(columnKey(s), "-", "_") })
	}
	for _, row := range t.Rows {
		write(row, func(s string) string { return CSVCell(Clean(s)) })
	}
	out.Flush()
}
