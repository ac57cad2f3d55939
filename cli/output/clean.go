package output

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
)

// Clean removes escape sequences, control characters and line breaks from untrusted text.
// The result is safe in a table cell or a message.
func Clean(s string) string {
	if isPlain(s) {
		return strings.TrimSpace(s)
	}
	var out bytes.Buffer
	c := &Cleaner{W: &out}
	_, _ = c.Write([]byte(s)) // writing to a buffer does not fail
	_ = c.Close()
	return strings.TrimSpace(strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(out.String()))
}

// isPlain reports whether a text has only printable ASCII characters. Clean has nothing to remove from such a text.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// Cleaner writes text to a terminal without escape sequences. Cleaner writes only printable characters, newlines and tabs. A lone
// carriage return becomes a newline. An escape sequence may be split between two writes.
type Cleaner struct {
	W     io.Writer
	state cleanState
	part  []byte // the first bytes of an incomplete character
	cr    bool   // the last character was a carriage return
}

type cleanState int

const (
	plain     cleanState = iota
	escape               // after ESC
	control              // in a CSI sequence, until its final byte
	command              // in OSC, DCS, …, until BEL or ST, or to the end of the line at most
	commandST            // in such a sequence, after ESC
	charset              // after ESC and an intermediate byte; one more byte follows
)

func (c *Cleaner) Write(p []byte) (int, error) {
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
	if _, err := c.W.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the rest of the output, if the text ended inside a multi-byte character or after a carriage return.
func (c *Cleaner) Close() error {
	var out []byte
	if len(c.part) > 0 {
		out = c.take(out, utf8.RuneError)
	}
	if c.cr {
		out = append(out, '\n')
	}
	c.part, c.cr = nil, false
	_, err := c.W.Write(out)
	return err
}

// The method `take` processes one character and appends its printable form to `out`.
func (c *Cleaner) take(out []byte, r rune) []byte {
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
		} else if r < 0x20 || r > 0x7e { // the sequence is incomplete and normal text follows
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

func (c *Cleaner) takePlain(out []byte, r rune) []byte {
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
	case ares.IsDirectionMark(r):
	default:
		out = utf8.AppendRune(out, r)
	}
	return out
}
