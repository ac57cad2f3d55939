package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// readFlags are the flags of every command that reads.
type readFlags struct {
	output string
	watch  bool
}

func (o *readFlags) addOutput(c *cobra.Command) {
	c.Flags().StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	must(c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)))
	before := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if !slices.Contains([]string{"table", "json", "yaml"}, o.output) {
			return usagef("--output %s: use table, json or yaml", o.output)
		}
		return before(c, args)
	}
}

func (o *readFlags) add(c *cobra.Command) *cobra.Command {
	o.addOutput(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "go on showing changes until interrupted")
	return c
}

// tenantFlag adds --tenant-id, as most commands call it. Where it stands --tenant is
// understood, too, for that is what these commands took first.
func tenantFlag(flags *pflag.FlagSet, to *string, usage string) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "tenant" {
			name = "tenant-id"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(to, "tenant-id", "", usage)
}

// must is for mistakes of our own in building the commands.
func must(err error) {
	if err != nil {
		panic("cli: " + err.Error())
	}
}

// watchEvery is how often --watch asks the server.
const watchEvery = time.Second

// show prints what fetch answers, once or, with --watch, at each change: on a
// terminal in place, else one after the other.
func (a *app) show(ctx context.Context, o *readFlags, fetch func(context.Context) (proto.Message, error), table func(io.Writer, proto.Message)) error {
	var last []byte
	for first := true; ; first = false {
		m, err := fetch(ctx)
		if err != nil {
			if !first && ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !o.watch {
			return a.print(o, m, table)
		}
		now := fingerprint(m)
		redraw := a.tty && o.output == "table"
		if redraw {
			say(a.out, "\x1b[H\x1b[2J")
		} else if !first && !bytes.Equal(now, last) && o.output == "table" {
			say(a.out, "\n")
		}
		if redraw || !bytes.Equal(now, last) {
			if err := a.print(o, m, table); err != nil {
				return err
			}
		}
		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// fingerprint is what of an answer counts as a change: everything but the
// revision of the list, which every other job moves too.
func fingerprint(m proto.Message) []byte {
	c := proto.Clone(m)
	r := c.ProtoReflect()
	if fd := r.Descriptor().Fields().ByName("revision"); fd != nil {
		r.Clear(fd)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	must(err)
	return data
}

func (a *app) print(o *readFlags, m proto.Message, table func(io.Writer, proto.Message)) error {
	if o.output == "table" {
		return a.buffered(func(w io.Writer) { table(w, m) })
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if o.watch {
		return a.printStream(o.output, data)
	}
	return a.printJSON(o.output, data)
}

// printValue prints a plain value as print does messages.
func (a *app) printValue(format string, v any, table func(io.Writer)) error {
	if format == "table" {
		return a.buffered(table)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return a.printJSON(format, data)
}

func (a *app) printJSON(format string, data []byte) error {
	return a.buffered(func(w io.Writer) {
		if format == "yaml" {
			writeYAML(w, data)
			return
		}
		var out bytes.Buffer
		must(json.Indent(&out, data, "", "  ")) // protojson's own spacing is not stable
		say(w, "%s\n", escapeControls(out.String()))
	})
}

// writeYAML writes JSON as YAML. The value goes over, not the text: JSON may
// hold characters that YAML must escape.
func writeYAML(w io.Writer, data []byte) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	must(dec.Decode(&v))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	must(enc.Encode(yamlOf(v)))
	must(enc.Close())
	say(w, "%s", escapeControls(out.String()))
}

// yamlOf makes YAML of what was JSON, numbers written as they came. Text with
// anything unusual goes into double quotes, the one style that can hold it.
func yamlOf(v any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = yaml.MappingNode
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, yamlOf(k), yamlOf(v[k]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, e := range v {
			n.Content = append(n.Content, yamlOf(e))
		}
	case string:
		n.Tag, n.Value = "!!str", v
		odd := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if strings.ContainsFunc(v, odd) || strings.TrimLeft(v, " \n") != v {
			n.Style = yaml.DoubleQuotedStyle
		}
	case nil:
		n.Value = "null"
	default: // a number, true or false
		n.Value = fmt.Sprint(v)
	}
	return n
}

// printStream prints one of many documents: a line of JSON, or YAML with its
// separator.
func (a *app) printStream(format string, data []byte) error {
	if format == "yaml" {
		say(a.out, "---\n")
		return a.printJSON(format, data)
	}
	var out bytes.Buffer
	must(json.Compact(&out, data))
	return a.buffered(func(w io.Writer) { say(w, "%s\n", escapeControls(out.String())) })
}

// escapeControls writes the control characters JSON and YAML allow in a string,
// but a terminal may obey, as \u sequences.
func escapeControls(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// buffered writes all of an answer at once and says when that did not work.
func (a *app) buffered(write func(io.Writer)) error {
	var b bytes.Buffer
	write(&b)
	if _, err := a.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// table is text in columns.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// colors of the words that say how a thing stands.
var colors = map[string]string{
	"succeeded": "32", "online": "32", "running": "36", "scheduled": "36", "pending": "33", "retrying": "33",
	"preempted": "33", "suspect": "33", "cordoned": "33", "failed": "31", "lost": "31", "offline": "31", "cancelled": "2",
}

// maxCell is the widest a cell other than the last may be.
const maxCell = 48

func (t *table) write(w io.Writer, color bool) {
	width := make([]int, len(t.head))
	for i, h := range t.head {
		width[i] = len(h)
	}
	for _, row := range t.rows {
		for i := range row {
			row[i] = clean(row[i])
			if i < len(row)-1 {
				row[i] = shorten(row[i], maxCell)
			}
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	writeRow(w, t.head, width, func(_ int, s string) string { return paint(color, "1", s) })
	for _, row := range t.rows {
		writeRow(w, row, width, func(i int, s string) string {
			if t.head[i] == "STATE" || t.head[i] == "OUTCOME" {
				return paint(color, colors[strings.TrimSpace(s)], s)
			}
			return s
		})
	}
}

func writeRow(w io.Writer, cells []string, width []int, dress func(int, string) string) {
	var b strings.Builder
	last := len(cells) - 1
	for last > 0 && cells[last] == "" {
		last--
	}
	for i, cell := range cells[:last+1] {
		if i < last {
			cell += strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			b.WriteString(dress(i, cell) + "  ")
		} else {
			b.WriteString(dress(i, cell))
		}
	}
	say(w, "%s\n", b.String())
}

func paint(on bool, code, s string) string {
	if !on || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func shorten(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// age is how long ago t was, in one or two units.
func (a *app) age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return span(a.now().Sub(t.AsTime()))
}

// when is a time, and how far it is from now.
func (a *app) when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	text := t.AsTime().Local().Format(time.RFC3339)
	if left := t.AsTime().Sub(a.now()); left > time.Second { // less is a clock that differs
		return fmt.Sprintf("%s (in %s)", text, span(left))
	}
	return fmt.Sprintf("%s (%s ago)", text, a.age(t))
}

func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
