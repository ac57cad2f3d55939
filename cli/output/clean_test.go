package output

import (
	"bytes"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï 火":                    "plain ünï 火",
		"\x1b[1;31mred\x1b[0m":           "red",
		"\x1b]0;title\x07x":              "x",
		"\x1b]8;;http://e\x1b\\link":     "link",
		"\x1bP1$r\x1b\\x\x1b(Bx\x1bcx":   "xxx",
		"a\u009b31mb\u0085c":             "abc",
		"a\x00b\x08c\x7fd":               "abcd",
		"\x1b]0;never ended\nnext line":  "next line",
		"one\r\ntwo\rthree":              "one two three",
		"right\u202eleft":                "rightleft",
		"arabic\u061cmark":               "arabicmark",
		"8 bits \x9b31m\x9d0;t\x07":      "8 bits �31m�0;t",
		"bad \xff\xc3":                   "bad ��",
		"\x1b[31\x1b[32mx":               "x",
		"\x1b\x1b[31mx\x1b]0;a\x1bb\x07": "x",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzCleaner checks that the output does not depend on how the input is split into writes.
func FuzzCleaner(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;t\x07ü\r\nc", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		whole, parts := &bytes.Buffer{}, &bytes.Buffer{}
		one, two := &Cleaner{W: whole}, &Cleaner{W: parts}
		cut = min(max(cut, 0), len(text))
		for _, w := range []struct {
			c    *Cleaner
			text string
		}{{one, text}, {two, text[:cut]}, {two, text[cut:]}} {
			if _, err := w.c.Write([]byte(w.text)); err != nil {
				t.Fatal(err)
			}
		}
		if one.Close() != nil || two.Close() != nil || whole.String() != parts.String() {
			t.Fatalf("%q cut at %d: %q and %q", text, cut, whole, parts)
		}
		for _, r := range whole.String() {
			if ares.IsDirectionMark(r) || r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q let %q through", text, r)
			}
		}
	})
}
