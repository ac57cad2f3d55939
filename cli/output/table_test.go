package output

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWidth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "火箭": 4, "🚀": 2, "👩‍🚀": 2, "🇩🇪": 2, "❤️": 2, "…": 1} {
		if got := Width(text); got != want {
			t.Errorf("Width(%q) = %d, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"火箭火", 4, "火…"}, {"火箭火", 5, "火箭…"}, {"👩‍🚀👩‍🚀", 3, "👩‍🚀…"}, {"ab", 1, "…"}, {"ab", 0, ""}} {
		if got := Cut(c.text, c.width); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func example() *Table {
	t := &Table{Head: []string{"ID", "NAME", "STATE", "GPUS", "NOTES", "REASON"}, Drop: []string{"GPUS"}, Wide: []string{"NOTES"}, Passing: []string{"GPUS"}}
	t.Add("job-aaaaaaaaaaaaaaaaaaaaaaaa", "one", "running", "8", "x", "a long reason that does not fit a narrow terminal")
	t.Add("job-aaaaaaaabbbbbbbbbbbbbbbb", "two", "pending", "10", "y", "short")
	return t
}

func show(t *Table, width int) string {
	var b strings.Builder
	t.WriteIn(&b, false, width)
	return b.String()
}

func TestTableFits(t *testing.T) {
	t.Parallel()
	if got := show(example(), 0); !strings.HasPrefix(got, "ID                            NAME  STATE    GPUS  REASON\njob-aaaaaaaaaaaaaaaaaaaaaaaa  one ") {
		t.Errorf("without a limit:\n%s", got)
	}
	// The IDs differ in the ninth character only, so nine are shown.
	if got, want := show(example(), 44), `ID             NAME  STATE    REASON
job-aaaaaaaaa  one   running  a long reason…
job-aaaaaaaab  two   pending  short
`; got != want {
		t.Errorf("44 columns:\n%s", got)
	}
	// A command accepts the whole of a shortened ID, so other columns are cut before it.
	for _, width := range []int{20, 25, 30, 40} {
		if got := show(example(), width); !strings.Contains(got, "\njob-aaaaaaaab ") {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
	full := example()
	full.Full = true
	if got := show(full, 20); !strings.Contains(got, "NOTES") || !strings.Contains(got, "narrow terminal") || !strings.Contains(got, "job-aaaaaaaabbbbbbbbbbbbbbbb") {
		t.Errorf("wide:\n%s", got)
	}
}

// TestNoLineIsTooWide checks that no line of a list is wider than the terminal, whatever the width and the texts are.
func TestNoLineIsTooWide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := example()
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			x.Add(rapid.SliceOfN(rapid.StringN(0, 60, -1), len(x.Head), len(x.Head)).Draw(t, "row")...)
		}
		width := rapid.IntRange(1, 120).Draw(t, "width")
		lines := strings.Split(strings.TrimSuffix(show(x, width), "\n"), "\n")
		if len(lines) != len(x.Rows)+1 {
			t.Fatalf("%d lines for %d rows", len(lines), len(x.Rows))
		}
		for _, line := range lines {
			if Width(line) > width {
				t.Fatalf("%d columns: %q has %d", width, line, Width(line))
			}
		}
	})
}

func TestSort(t *testing.T) {
	t.Parallel()
	for _, c := range [][]string{
		{"2", "10"}, {"1/16", "9/16", "10/16"}, {"0.5s", "10s", "2m00s", "1h00m", "47h59m", "2d00h", "2d01h", "11d00h"}, {"1.5 %", "12 %"},
		{"2x4", "10x1"}, {"3", "4x1", "2x4", "3x2x4"}, {"a", "B", "c"}, {"7", "-"}, {"3", "three"}, {"1", "1 of 4"}, {"5s ago", "2m00s ago"},
	} {
		for i := range c {
			for k := range c {
				if got := compareCells(c[i], c[k]); got != max(-1, min(1, i-k)) {
					t.Errorf("compareCells(%q, %q) = %d", c[i], c[k], got)
				}
			}
		}
	}
	x := example()
	if err := x.sort("-gpus"); err != nil || x.Rows[0][1] != "two" {
		t.Errorf("%v, %q", err, x.Rows)
	}
	if err := x.sort("size"); err == nil || !strings.Contains(err.Error(), "use id, name, state, gpus") {
		t.Errorf("an unknown column: %v", err)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags Flags
		want  string
	}{
		{Flags{Format: "csv"}, "id,name,state,gpus,notes,reason\njob-aaaaaaaaaaaaaaaaaaaaaaaa,one,running,8,x,a long"},
		{Flags{Format: "csv", columns: []string{"Name"}, noHeader: true}, "one\ntwo\n"},
		{Flags{Format: "name", sort: "state"}, "job-aaaaaaaabbbbbbbbbbbbbbbb\njob-aaaaaaaaaaaaaaaaaaaaaaaa\n"},
		{Flags{Format: "table", columns: []string{"notes", "id"}}, "NOTES  ID\nx      job-"},
	} {
		var b strings.Builder
		a := &Printer{Out: &b}
		if err := a.PrintRows(&c.flags, example()); err != nil || !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("%+v: %v\n%s", c.flags, err, b.String())
		}
	}
	bad := Flags{Format: "table", columns: []string{"nmae"}}
	if err := (&Printer{}).PrintRows(&bad, example()); err == nil || !strings.Contains(err.Error(), "--columns nmae: there is no such column: use id, name") {
		t.Errorf("an unknown column: %v", err)
	}
}

func TestContradictingFlags(t *testing.T) {
	t.Parallel()
	for _, o := range []Flags{
		{Format: "xml"}, {Format: "json", sort: "name"}, {Format: "yaml", noHeader: true}, {Format: "json", columns: []string{"id"}}, {Format: "name", columns: []string{"id"}},
	} {
		if o.checkRows() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
