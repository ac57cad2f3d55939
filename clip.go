package ares

import "strings"

// maxQuoted is the maximum number of bytes of a caller's input in an error message.
const maxQuoted = 64

// Clip shortens a caller's input before an error message quotes it.
func Clip(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	return Truncate(s, maxQuoted) + "…"
}

// Truncate returns the beginning of a text, at most `limit` bytes long. Truncate never cuts a character in half,
// because text that is not valid UTF-8 cannot be sent.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
