package terminal

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Screen is the screen of a terminal. It understands the control sequences that Ares uses, and remembers those that it does not
// know.
type Screen struct {
	columns, rows int
	lines         [][]string // a wide character is followed by an empty cell
	main          [][]string // the user's screen while the alternate one is shown
	x, y          int
	atMargin      bool // the last column was written: the next character goes to the next line

	Alternate bool
	Hidden    bool // the cursor is not shown
	NoWrap    bool
	Partial   bool // the program has drawn only a part of its frame
	Unknown   []string

	part []byte // the beginning of a character or a control sequence
}

// NewScreen returns an empty screen.
func NewScreen(columns, rows int) *Screen {
	s := &Screen{}
	s.Resize(columns, rows)
	return s
}

// Resize makes the screen empty and gives it a new size.
func (s *Screen) Resize(columns, rows int) {
	s.columns, s.rows = columns, rows
	s.lines = s.empty()
	if s.main != nil {
		s.main = s.empty()
	}
	s.x, s.y, s.atMargin = 0, 0, false
}

func (s *Screen) empty() [][]string {
	out := make([][]string, s.rows)
	for i := range out {
		out[i] = slices.Repeat([]string{" "}, s.columns)
	}
	return out
}

func (s *Screen) copy() *Screen {
	out := *s
	out.lines = make([][]string, len(s.lines))
	for i, line := range s.lines {
		out.lines[i] = slices.Clone(line)
	}
	return &out
}

// String returns the text of the screen, without spaces at the ends of lines and without empty lines at the end.
func (s *Screen) String() string {
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(strings.Join(line, ""), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// Write shows what a program prints.
func (s *Screen) Write(data []byte) {
	data = append(s.part, data...)
	for len(data) > 0 {
		n := s.take(data)
		if n == 0 {
			break
		}
		data = data[n:]
	}
	s.part = slices.Clone(data)
}

// The method `take` handles one character or control sequence and returns its length, or 0 if it is incomplete.
func (s *Screen) take(data []byte) int {
	switch c := data[0]; {
	case c == 0x1b:
		return s.takeEscape(data)
	case c == '\r':
		s.x, s.atMargin = 0, false
	case c == '\n':
		s.lineFeed()
	case c == '\b':
		s.x, s.atMargin = max(0, s.x-1), false
	case c == 0x07:
	case c < 0x20:
		s.Unknown = append(s.Unknown, strconv.Quote(string(c)))
	case !utf8.FullRune(data):
		return 0
	default:
		text, _, width, _ := uniseg.FirstGraphemeCluster(data, -1)
		if len(text) == len(data) && mayGrow(data) {
			return 0
		}
		s.put(string(text), width)
		return len(text)
	}
	return 1
}

// mayGrow reports whether the next bytes may belong to the same character, such as the parts of an emoji.
func mayGrow(data []byte) bool {
	r, _ := utf8.DecodeLastRune(data)
	return r == 0x200d
}

func (s *Screen) put(text string, width int) {
	if s.atMargin && !s.NoWrap {
		s.x, s.atMargin = 0, false
		s.lineFeed()
	}
	if width == 0 || s.x+width > s.columns {
		return
	}
	s.lines[s.y][s.x] = text
	for i := 1; i < width; i++ {
		s.lines[s.y][s.x+i] = ""
	}
	if s.x += width; s.x >= s.columns {
		s.x, s.atMargin = s.columns-1, true
	}
}

func (s *Screen) lineFeed() {
	s.atMargin = false
	if s.y++; s.y == s.rows {
		s.y--
		s.lines = append(s.lines[1:], slices.Repeat([]string{" "}, s.columns))
	}
}

func (s *Screen) takeEscape(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	if data[1] != '[' {
		s.Unknown = append(s.Unknown, strconv.Quote(string(data[:2])))
		return 2
	}
	end := slices.IndexFunc(data[2:], func(c byte) bool { return c >= 0x40 && c <= 0x7e })
	if end < 0 {
		return 0
	}
	parameters, final := string(data[2:2+end]), data[2+end]
	if !s.control(parameters, final) {
		s.Unknown = append(s.Unknown, strconv.Quote(string(data[:3+end])))
	}
	return 3 + end
}

// The method `control` handles a control sequence, and reports whether it knows it.
func (s *Screen) control(parameters string, final byte) bool {
	switch string(final) + parameters {
	case "H":
		s.x, s.y, s.atMargin = 0, 0, false
	case "J", "J0":
		s.clear(s.y, s.x)
	case "J2":
		s.lines = s.empty()
	case "K", "K0":
		s.clearLine(s.y, s.x)
	case "K2":
		s.clearLine(s.y, 0)
	case "h?1049":
		s.main, s.lines, s.Alternate = s.lines, s.empty(), true
	case "l?1049":
		if s.Alternate {
			s.lines, s.main, s.Alternate = s.main, nil, false
		}
	case "h?25", "l?25":
		s.Hidden = final == 'l'
	case "h?7", "l?7":
		s.NoWrap = final == 'l'
	case "h?2026", "l?2026":
		s.Partial = final == 'h'
	case "h?2004", "l?2004": // a shell tells pasted text from typed text
	default:
		return final == 'm' // colors are not compared
	}
	return true
}

func (s *Screen) clear(y, x int) {
	s.clearLine(y, x)
	for y++; y < s.rows; y++ {
		s.clearLine(y, 0)
	}
}

func (s *Screen) clearLine(y, x int) {
	for ; x < s.columns; x++ {
		s.lines[y][x] = " "
	}
}
