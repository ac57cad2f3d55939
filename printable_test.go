package ares_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"epoch 3 of 10, größer": "epoch 3 of 10, größer", "": "",
		"\x1b[31mred\x1b[0m":          "[31mred[0m",
		"a\nb\tc\r":                   "a b c ",
		"\x00\x07\x7f\u009b2J":        "2J",
		"safe\u202etxt.exe\u2066":     "safetxt.exe",
		"cut \xff\xfe off":            "cut  off",
		"one\u2028two":                "one two",
		"\x1b]0;a new title\x07 done": "]0;a new title done",
	} {
		if got := ares.Printable(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
