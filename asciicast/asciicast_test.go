package asciicast

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFormat compares a recording with the text that the format prescribes.
func TestFormat(t *testing.T) {
	got := AppendHeader(nil, Header{Width: 80, Height: 24, Timestamp: 1504467315, Command: "sh -c 'a<b'", Env: map[string]string{"TERM": "xterm"}})
	got = AppendEvent(got, Event{248848 * time.Microsecond, Output, "\x1b[1mé\r\n\"<\x00"})
	got = AppendEvent(got, Event{time.Second, Resize, Size(100, 40)})
	got = AppendEvent(got, Event{time.Minute, Marker, "gap"})
	want := `{"version":2,"width":80,"height":24,"timestamp":1504467315,"command":"sh -c 'a<b'","env":{"TERM":"xterm"}}
[0.248848, "o", "\u001b[1mé\r\n\"<\u0000"]
[1.000000, "r", "100x40"]
[60.000000, "m", "gap"]
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// events reads all events of a recording.
func events(t interface{ Fatal(...any) }, data []byte) []Event {
	d, err := NewDecoder(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out []Event
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

// TestReplayIsEqual cuts random bytes into random pieces, also within characters, and reads them back: the same characters, and for
// text in UTF-8 the same bytes.
func TestReplayIsEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shown := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 60), rapid.Map(rapid.StringN(0, 30, -1), func(s string) []byte { return []byte(s) }),
			rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"é", "\x1b[31m", "日本", "\xe6\x97", "😀", "\xf0\x9f", "\x80", "\r\n", "e\u0301"}), 0, 20), func(s []string) []byte { return []byte(strings.Join(s, "")) })).Draw(t, "shown")
		data := AppendHeader(nil, Header{Width: 80, Height: 24})
		var j Joiner
		var at time.Duration
		for rest := shown; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			at += time.Duration(rapid.IntRange(0, 1e9).Draw(t, "pause")) * time.Microsecond
			data = AppendOutput(data, at, j.Next(rest[:n]))
			rest = rest[n:]
		}
		data = AppendOutput(data, at, j.End())
		var replay strings.Builder
		last := time.Duration(0)
		for _, e := range events(t, data) {
			if e.Kind != Output || e.At < last || e.At > at {
				t.Fatalf("event %+v after %v, end %v", e, last, at)
			}
			last = e.At
			replay.WriteString(e.Data)
		}
		if want := string([]rune(string(shown))); replay.String() != want { // which replaces bytes that are not UTF-8, and no others
			t.Fatalf("replayed %q, want %q", replay.String(), want)
		}
	})
}

// TestBadRecordings reads files that are no recordings.
func TestBadRecordings(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"", "is empty"},
		{"hello\n", "line 1 is not the header"},
		{`{"version":1,"width":80}` + "\n", "version 1 of the format"},
		{`{"version":2}` + "\n[1, \"o\"\n", "line 2 is not an event"},
		{`{"version":2}` + "\n[1, \"o\", \"x\", 4]\n", "line 2 is not an event"},
		{`{"version":2}` + "\n\n[-1, \"o\", \"x\"]\n", "line 3 has the time -1"},
		{`{"version":2}` + "\n[1e30, \"o\", \"x\"]\n", "line 2 has the time 1e+30"},
		{`{"version":2}` + "\n[1, \"o\", \"" + strings.Repeat("x", maxLine) + "\"]\n", "after line 1"},
	} {
		d, err := NewDecoder(strings.NewReader(c.data))
		if err == nil {
			_, err = d.Next()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.data, err, c.want)
		}
	}
}
