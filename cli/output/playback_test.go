package output

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPlayback passes on what draws, and nothing else, whatever pieces it arrives in.
func TestPlayback(t *testing.T) {
	for _, c := range []struct{ shown, want string }{
		{"plain é\r\n\t日本\b", "plain é\r\n\t日本\b"},
		{"\x1b[1;31mred\x1b[0m\x1b[38:2::1:2:3m", "\x1b[1;31mred\x1b[0m\x1b[38:2::1:2:3m"},
		{"\x1b[2J\x1b[H\x1b[10;20r\x1b[?1049h\x1b[?25l\x1b[?1049l", "\x1b[2J\x1b[H\x1b[10;20r\x1b[?1049h\x1b[?25l\x1b[?1049l"},
		{"\x1b(0qqq\x1b(B\x1b7\x1b8\x1bM", "\x1b(0qqq\x1b(B\x1b7\x1b8\x1bM"},
		{"a\x1b]0;title\x07b\x1b]52;c;cm0gLXJmIH4K\x1b\\c", "abc"},                // title, clipboard
		{"a\x1b[6nb\x1b[cc\x1b[>cd\x1b[?6ne\x1b[21tf\x1b[?u", "abcdef"},           // terminals answer to these
		{"a\x05b\x07c\x1bZd\x1bP$qm\x1b\\e\x1b[5$pf\x1b[1;1;1;1;1;1*y", "abcdef"}, // to these too
		{"a\x1b[?1000hb\x1b[?2004hc\x1b[>4;2md\x1b=e", "abcde"},                   // mouse, paste, keys
		{"a\x1b[?1049;1000hb", "ab"},
		{"a\u009b6nb\u009d0;x\x07c\u0085d", "abcd"},
		{"a\x1b[" + strings.Repeat("1;", 200) + "mb", "ab"},
		{"a\x1b[3\nb", "a\nb"},
		{"a\x1b]never ends", "a"},
		{"a\u202eb", "ab"},
	} {
		rapid.Check(t, func(rt *rapid.T) {
			var out bytes.Buffer
			p := &Playback{W: &out}
			for rest := []byte(c.shown); len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(rt, "piece")
				if _, err := p.Write(rest[:n]); err != nil {
					rt.Fatal(err)
				}
				rest = rest[n:]
			}
			if out.String() != c.want {
				rt.Fatalf("%q becomes %q, want %q", c.shown, out.String(), c.want)
			}
		})
	}
	var out bytes.Buffer
	p := &Playback{W: &out}
	_, _ = p.Write([]byte("\x1b[?1049h\x1b[31m"))
	_ = p.Close()
	if !strings.Contains(out.String(), "\x1b[?1049l") || !strings.HasSuffix(out.String(), "\x1b[0m\x1b[?7h\x1b[?25h\x1b(B\x0f") {
		t.Errorf("the terminal is left as %q", out.String())
	}
}
