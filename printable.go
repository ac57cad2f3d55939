package ares

import (
	"strings"
	"unicode/utf8"
)

// Printable returns a text without the characters that can change what a terminal or a log shows: control characters, the
// escape character that starts a terminal sequence, and marks that change the direction of text. A line break or a tab
// becomes a space. Use Printable for every text that a job or an agent writes and that somebody else reads.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029': // the last two also break lines
			return ' '
		case r < 0x20, r >= 0x7f && r < 0xa0, r == utf8.RuneError, IsDirectionMark(r):
			return -1
		}
		return r
	}, s)
}

// IsDirectionMark reports whether a character changes the direction of the text after it. With such a character, a text can
// look different from what it says.
func IsDirectionMark(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x61c
}
