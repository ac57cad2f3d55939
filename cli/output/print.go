// Package output prints answers as tables, lists of names and values, JSON, YAML and CSV.
// Package output removes terminal control sequences. Package output depends on no command
// and no server.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/cli/exit"
)

// Printer prints answers. A Printer contains the output streams and the clock, and knows whether
// the output is a terminal with colors.
type Printer struct {
	Out   io.Writer
	Err   io.Writer
	Now   func() time.Time
	TTY   bool // whether Out is a terminal
	Color bool
}

// Flags are the output flags of every command that prints objects.
type Flags struct {
	Format string
	Wide   bool // see AddWide
	watch  bool

	// These flags are only of lists: see AddRows.
	columns  []string
	sort     string
	noHeader bool
}

func (o *Flags) AddOutput(c *cobra.Command) {
	c.Flags().StringVarP(&o.Format, "output", "o", "table", "table, json or yaml")
	Must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)))
	before := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if !slices.Contains([]string{"table", "json", "yaml"}, o.Format) {
			return exit.Usagef("--output %s: use table, json or yaml", o.Format)
		}
		return before(c, args)
	}
}

func (o *Flags) Add(c *cobra.Command) *cobra.Command {
	o.AddOutput(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "show changes until interrupted")
	return c
}

// The function `fingerprint` encodes an answer so that changes can be detected. It leaves out
// the revision of a list, because the revision also changes when jobs outside the list change.
func fingerprint(m proto.Message) []byte {
	c := proto.Clone(m)
	r := c.ProtoReflect()
	if fd := r.Descriptor().Fields().ByName("revision"); fd != nil {
		r.Clear(fd)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	Must(err)
	return data
}

func (a *Printer) Print(o *Flags, m proto.Message, table func(io.Writer, proto.Message)) error {
	if o.Format == "table" {
		return a.Buffered(func(w io.Writer) { table(w, m) })
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if o.watch {
		return a.PrintStream(o.Format, data)
	}
	return a.printJSON(o.Format, data)
}

// PrintValue is like Print, for a Go value instead of a protobuf message.
func (a *Printer) PrintValue(format string, v any, table func(io.Writer)) error {
	if format == "table" {
		return a.Buffered(table)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return a.printJSON(format, data)
}

func (a *Printer) printJSON(format string, data []byte) error {
	return a.Buffered(func(w io.Writer) {
		if format == "yaml" {
			WriteYAML(w, data)
			return
		}
		var out bytes.Buffer
		Must(json.Indent(&out, data, "", "  ")) // protojson's own spacing is not stable
		Printf(w, "%s\n", escapeControls(out.String()))
	})
}

// PrintStream prints one document of a stream, either as a line of JSON or as YAML after a separator.
func (a *Printer) PrintStream(format string, data []byte) error {
	if format == "yaml" {
		Printf(a.Out, "---\n")
		return a.printJSON(format, data)
	}
	var out bytes.Buffer
	Must(json.Compact(&out, data))
	return a.Buffered(func(w io.Writer) { Printf(w, "%s\n", escapeControls(out.String())) })
}

// Buffered writes a whole answer in one call and returns the write error.
func (a *Printer) Buffered(write func(io.Writer)) error {
	var b bytes.Buffer
	write(&b)
	if _, err := a.Out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Age formats the time since t in one or two units, such as 2h05m.
func (a *Printer) Age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return Duration(a.Now().Sub(t.AsTime()))
}

// When formats a time, and adds how long ago it was or how far in the future it is.
func (a *Printer) When(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	text := t.AsTime().Local().Format(time.RFC3339)
	if left := t.AsTime().Sub(a.Now()); left > time.Second { // a smaller difference can come from unequal clocks
		return fmt.Sprintf("%s (in %s)", text, Duration(left))
	}
	return fmt.Sprintf("%s (%s ago)", text, a.Age(t))
}
