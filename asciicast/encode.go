package asciicast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendHeader appends the first line of a recording.
func AppendHeader(dst []byte, h Header) []byte {
	h.Version = Version
	return append(appendJSON(dst, h), '\n')
}

// AppendEvent appends the line of an event. Bytes that are not UTF-8 become replacement characters, because the format is text.
func AppendEvent(dst []byte, e Event) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendFloat(dst, e.At.Seconds(), 'f', 6, 64)
	dst = append(dst, ", "...)
	dst = appendJSON(dst, string(e.Kind))
	dst = append(dst, ", "...)
	dst = appendJSON(dst, e.Data)
	return append(dst, "]\n"...)
}

// appendJSON appends a value in one line, with <, > and & as they are.
func appendJSON(dst []byte, v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings, numbers and maps of strings can always be encoded
	return append(dst, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...)
}

// Size returns the data of a Resize event.
func Size(columns, rows int) string { return fmt.Sprintf("%dx%d", columns, rows) }

// Joiner joins characters of a stream that arrive in several pieces. An event holds only complete characters, so the beginning
// of a character waits for the rest. The zero value is ready to use.
type Joiner struct {
	rest []byte // the beginning of a character: at most 3 bytes
}

// Next returns the complete characters of a piece, together with those that waited.
func (j *Joiner) Next(piece []byte) string {
	data := append(j.rest, piece...)
	end := len(data)
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if at := len(data) - back; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				end = at
			}
			break
		}
	}
	text := string(data[:end])
	j.rest = append([]byte(nil), data[end:]...)
	return text
}

// End returns what still waits at the end of the stream, or before something else interrupts it.
func (j *Joiner) End() string {
	text := string(j.rest)
	j.rest = nil
	return text
}

// AppendOutput appends an event with output, or nothing if no character is complete.
func AppendOutput(dst []byte, at time.Duration, text string) []byte {
	if text == "" {
		return dst
	}
	return AppendEvent(dst, Event{At: at, Kind: Output, Data: text})
}
