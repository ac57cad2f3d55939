package output

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
)

// watchEvery is the interval at which --watch queries the server.
const watchEvery = time.Second

// Watches reports whether the user wants to see changes.
func (o *Flags) Watches() bool { return o.watch }

// Redraws reports whether --watch redraws a table in place. This needs a terminal that can move the cursor.
func (a *Printer) Redraws(o *Flags) bool {
	term := os.Getenv("TERM")
	return o.watch && a.TTY && o.Format == "table" && term != "" && term != "dumb"
}

// Lines reports whether --watch prints one line for each change.
func (a *Printer) Lines(o *Flags) bool { return o.watch && !o.isDocument() && !a.Redraws(o) }

// An answer is what one query of the server returned.
type answer struct {
	m   proto.Message
	err error
}

// The method `poll` queries the server now and then, until ctx ends. The first error, and every error that is not about the connection,
// ends the queries.
func poll(ctx context.Context, fetch func(context.Context) (proto.Message, error)) <-chan answer {
	out := make(chan answer)
	go func() {
		defer close(out)
		for first := true; ; first = false {
			m, err := fetch(ctx)
			if err != nil && ctx.Err() != nil && !first {
				return
			}
			select {
			case out <- answer{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil && (first || ares.CodeOf(err) != ares.Unavailable) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchEvery):
			}
		}
	}()
	return out
}

// Show prints the message that the function `fetch` returns. With --watch, Show prints the message again after each change.
// On a terminal, Show redraws a table in place.
func (a *Printer) Show(ctx context.Context, o *Flags, fetch func(context.Context) (proto.Message, error), table func(io.Writer, proto.Message)) error {
	if !o.watch {
		m, err := fetch(ctx)
		if err != nil {
			return err
		}
		return a.Print(o, m, table)
	}
	if a.Redraws(o) {
		return a.onScreen(ctx, fetch, func(m proto.Message, _, _ int) ([]string, error) {
			var b strings.Builder
			table(&b, m)
			return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), nil
		})
	}
	var last []byte
	c := connection{a: a}
	for got := range poll(ctx, fetch) {
		if !c.is(got.err) {
			if c.lost {
				continue
			}
			return got.err
		}
		now := fingerprint(got.m)
		if bytes.Equal(now, last) {
			continue
		}
		if last != nil && o.Format == "table" {
			Printf(a.Out, "\n")
		}
		if err := a.Print(o, got.m, table); err != nil {
			return err
		}
		last = now
	}
	return nil
}

// A connection tells the user once that no server answers, and once that a server answers again.
type connection struct {
	a    *Printer
	up   bool // a server has answered
	lost bool
}

// The method `is` reports whether a query without an error, or with this one, had an answer.
func (c *connection) is(err error) bool {
	switch {
	case err == nil && c.lost:
		c.Restored()
	case err != nil && c.up && ares.CodeOf(err) == ares.Unavailable:
		c.Lost()
		return false
	case err != nil:
		c.lost = false
		return false
	}
	c.up, c.lost = true, false
	return true
}

// Lost tells the user that no server answers, unless the user knows it.
func (c *connection) Lost() {
	if !c.lost {
		Printf(c.a.Err, "ares: no server answers; trying again until one does, or until you press Ctrl-C\n")
	}
	c.lost = true
}

// Restored tells the user that a server answers again.
func (c *connection) Restored() {
	if c.lost {
		Printf(c.a.Err, "ares: a server answers again\n")
	}
	c.lost = false
}

// watchLines prints the rows of a list, then each row that is new or has changed.
func (a *Printer) watchLines(ctx context.Context, o *Flags, fetch func(context.Context) (proto.Message, error), table func(proto.Message) *Table) error {
	s := a.NewStream(o)
	var last []string
	c := connection{a: a}
	for got := range poll(ctx, fetch) {
		if !c.is(got.err) {
			if c.lost {
				continue
			}
			return got.err
		}
		t := table(got.m)
		var now []string
		rows := t.Rows
		t.Rows = nil
		for _, row := range rows {
			sign := t.signature(row)
			now = append(now, sign)
			if !slices.Contains(last, sign) {
				t.Rows = append(t.Rows, row)
			}
		}
		last = now
		if err := s.Print(t); err != nil {
			return err
		}
	}
	return nil
}

// The method `signature` returns the cells of a row that do not change with time alone.
func (t *Table) signature(row []string) string {
	var b strings.Builder
	for i, cell := range row {
		if !slices.Contains(t.Passing, t.Head[i]) {
			b.WriteString(cell + "\x00")
		}
	}
	return b.String()
}

// A Stream prints the rows of one list in several parts, under one header. Columns may become wider, but never narrower.
type Stream struct {
	a      *Printer
	o      *Flags
	begun  bool
	widths []int
}

func (a *Printer) NewStream(o *Flags) *Stream { return &Stream{a: a, o: o} }

// Print prints more rows.
func (s *Stream) Print(t *Table) error {
	if err := s.o.apply(t); err != nil {
		return err
	}
	if len(t.Rows) == 0 {
		return nil
	}
	header := !s.begun && !t.NoHeader
	s.begun = true
	return s.a.Buffered(func(w io.Writer) {
		switch s.o.Format {
		case "name":
			t.writeNames(w)
			return
		case "csv":
			t.NoHeader = !header
			t.writeCSV(w)
			return
		}
		l := t.layout(s.a.columns())
		if !l.limited && len(s.widths) == len(l.widths) {
			for i := range l.widths {
				l.widths[i] = max(l.widths[i], s.widths[i])
			}
		}
		s.widths = l.widths
		if header {
			Printf(w, "%s\n", l.header(s.a.Color))
		}
		for _, row := range l.cells {
			Printf(w, "%s\n", l.row(row, s.a.Color))
		}
	})
}
