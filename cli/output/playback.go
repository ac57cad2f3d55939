package output

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
)

// Playback writes to a terminal what another terminal has shown. It passes on text, colours, movements of the cursor and the
// alternate screen. It leaves out what could do harm here: sequences to which a terminal answers, because the answer would be typed
// into the user's shell, and those that set titles, the clipboard, keys or the mouse. A sequence may be split between two writes.
type Playback struct {
	W        io.Writer
	state    cleanState
	sequence []byte // from ESC, while it is incomplete
	part     []byte // the first bytes of an incomplete character

	alternate, region bool // what Close must undo
}

// maxSequence is the maximum length of a sequence. Longer ones are left out.
const maxSequence = 64

func (p *Playback) Write(data []byte) (int, error) {
	rest := append(p.part, data...)
	var out bytes.Buffer
	for len(rest) > 0 && utf8.FullRune(rest) {
		r, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		p.take(&out, r)
	}
	p.part = append([]byte(nil), rest...)
	if _, err := p.W.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(data), nil
}

// Close sets the terminal back: the screen, its scrolling region, the cursor, colours and characters.
func (p *Playback) Close() error {
	end := "\x1b[0m\x1b[?7h\x1b[?25h\x1b(B\x0f"
	if p.region {
		end = "\x1b7\x1b[r\x1b8" + end
	}
	if p.alternate {
		end = "\x1b[?1049l" + end
	}
	_, err := io.WriteString(p.W, end)
	return err
}

// The method `take` processes one character, and writes what is passed on.
func (p *Playback) take(out *bytes.Buffer, r rune) {
	switch p.state {
	case plain:
		p.takePlain(out, r)
	case escape:
		p.takeEscape(out, r)
	case charset:
		p.state = plain
		if strings.ContainsRune("()", rune(p.sequence[1])) && strings.ContainsRune("AB0", r) {
			out.WriteString(string(p.sequence) + string(r))
		}
	case control:
		p.takeControl(out, r)
	case command, commandST:
		switch {
		case r == 0x07, r == 0x9c, p.state == commandST && r == '\\':
			p.state = plain
		case r == 0x1b:
			p.state = commandST
		default:
			p.state = command
		}
	}
}

func (p *Playback) takePlain(out *bytes.Buffer, r rune) {
	switch {
	case r == 0x1b:
		p.state, p.sequence = escape, []byte{0x1b}
	case r == 0x9b:
		p.state, p.sequence = control, []byte("\x1b[")
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		p.state = command
	case r >= '\b' && r <= '\r', r == 0x0e || r == 0x0f: // backspace to carriage return, and the choice of the character set
		out.WriteRune(r)
	case r < 0x20, r >= 0x7f && r < 0xa0, ares.IsDirectionMark(r):
	default:
		out.WriteRune(r)
	}
}

func (p *Playback) takeEscape(out *bytes.Buffer, r rune) {
	p.state = plain
	switch {
	case r == '[':
		p.state, p.sequence = control, append(p.sequence, '[')
	case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
		p.state = command
	case r >= 0x20 && r <= 0x2f:
		p.state, p.sequence = charset, append(p.sequence, byte(r))
	case strings.ContainsRune("78DEHM", r): // the cursor saved and restored, lines, tab stops
		out.WriteString("\x1b" + string(r))
	case r == 0x1b:
		p.state = escape
	}
}

// takeControl collects a control sequence, and writes it if it is one of those that only draw.
func (p *Playback) takeControl(out *bytes.Buffer, r rune) {
	switch {
	case r < 0x20 || r > 0x7e: // the sequence is incomplete, and something else follows
		p.state = plain
		p.takePlain(out, r)
	case r < 0x40:
		if len(p.sequence) < maxSequence {
			p.sequence = append(p.sequence, byte(r))
		}
	default:
		p.state = plain
		args := string(p.sequence[2:])
		if len(p.sequence) < maxSequence && p.mayDraw(args, byte(r)) {
			out.WriteString("\x1b[" + args + string(r))
		}
	}
}

// mayDraw reports whether a control sequence with these arguments and this last byte is passed on.
func (p *Playback) mayDraw(args string, last byte) bool {
	mode, isPrivate := strings.CutPrefix(args, "?")
	if isPrivate {
		switch {
		case last != 'h' && last != 'l':
			return false
		case mode == "47" || mode == "1047" || mode == "1049":
			p.alternate = last == 'h'
			return true
		}
		return mode == "7" || mode == "25" || mode == "1048"
	}
	if strings.Trim(args, "0123456789;:") != "" {
		return false
	}
	if last == 'h' || last == 'l' {
		return args == "4" // insert mode
	}
	p.region = p.region || last == 'r'
	return strings.IndexByte("ABCDEFGHIJKLMPSTXZ@`adefgmrsu", last) >= 0
}
