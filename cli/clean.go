package cli

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// clean makes text of others safe for one cell of a table or one line of a
// message: no escape sequences, no control characters, no line breaks.
func clean(s string) string {
	var out bytes.Buffer
	c := &cleaner{w: &out}
	_, _ = c.Write([]byte(s)) // a buffer takes everything
	_ = c.Close()
	return strings.TrimSpace(strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(out.String()))
}

// cleaner passes text on to a terminal without what a terminal would obey:
// only printable characters, newlines and tabs come through. A lone carriage
// return becomes a newline. Sequences may be cut anywhere between two writes.
type cleaner struct {
	w     io.Writer
	state cleanState
	part  []byte // a character not yet complete
	cr    bool   // the last character was a carriage return
}

type cleanState int

const (
	plain     cleanState = iota
	escape               // after ESC
	control              // in a CSI sequence, until its final byte
	command              // in OSC, DCS, …, until BEL or ST, at most to the end of the line
	commandST            // in one of those, after ESC
	charset              // ESC with an intermediate byte: one more comes
)

func (c *cleaner) Write(p []byte) (int, error) {
	data := append(c.part, p...)
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		if !utf8.FullRune(data) {
			break
		}
		r, n := utf8.DecodeRune(data)
		data = data[n:]
		out = c.take(out, r)
	}
	c.part = append([]byte(nil), data...)
	if _, err := c.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what a text ended with in the middle of a character.
func (c *cleaner) Close() error {
	var out []byte
	if len(c.part) > 0 {
		out = c.take(out, utf8.RuneError)
	}
	if c.cr {
		out = append(out, '\n')
	}
	c.part, c.cr = nil, false
	_, err := c.w.Write(out)
	return err
}

// take handles one character.
func (c *cleaner) take(out []byte, r rune) []byte {
	switch c.state {
	case plain:
		return c.takePlain(out, r)
	case escape:
		switch {
		case r == '[':
			c.state = control
		case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
			c.state = command
		case r >= 0x20 && r <= 0x2f:
			c.state = charset
		case r == 0x1b:
		default:
			c.state = plain
		}
	case control:
		if r >= 0x40 && r <= 0x7e {
			c.state = plain
		} else if r < 0x20 || r > 0x7e { // broken off: it is text again
			c.state = plain
			return c.takePlain(out, r)
		}
	case command, commandST:
		switch {
		case r == '\n':
			c.state = plain
			return c.takePlain(out, r)
		case r == 0x07, r == 0x9c, c.state == commandST && r == '\\':
			c.state = plain
		case r == 0x1b:
			c.state = commandST
		default:
			c.state = command
		}
	case charset:
		if r < 0x20 || r > 0x2f {
			c.state = plain
		}
	}
	return out
}

func (c *cleaner) takePlain(out []byte, r rune) []byte {
	if c.cr && r != '\r' {
		c.cr = false
		if r != '\n' {
			out = append(out, '\n')
		}
	}
	switch {
	case r == '\r':
		c.cr = true
	case r == 0x1b:
		c.state = escape
	case r == 0x9b:
		c.state = control
	case r == 0x90 || r == 0x9d || r == 0x98 || r == 0x9e || r == 0x9f:
		c.state = command
	case r == '\n' || r == '\t':
		out = append(out, byte(r))
	case r < 0x20, r >= 0x7f && r < 0xa0:
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f: // they reorder the line
	default:
		out = utf8.AppendRune(out, r)
	}
	return out
}
