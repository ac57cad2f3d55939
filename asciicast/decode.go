package asciicast

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// maxLine is the maximum length of a line.
const maxLine = 4 << 20

// maxSeconds is the latest time of an event: a year.
const maxSeconds = 366 * 24 * 3600

// Decoder reads a recording.
type Decoder struct {
	Header Header
	in     *bufio.Scanner
	line   int
}

// NewDecoder reads the first line of a recording.
func NewDecoder(r io.Reader) (*Decoder, error) {
	d := &Decoder{in: bufio.NewScanner(r)}
	d.in.Buffer(nil, maxLine)
	line, err := d.next()
	if err == io.EOF {
		return nil, fmt.Errorf("the recording is empty")
	}
	if err != nil {
		return nil, err
	}
	if err = json.Unmarshal(line, &d.Header); err != nil {
		return nil, fmt.Errorf("line 1 is not the header of an asciicast: %w", err)
	}
	if d.Header.Version != Version {
		return nil, fmt.Errorf("the recording has version %d of the format, and only version %d is known", d.Header.Version, Version)
	}
	return d, nil
}

func (d *Decoder) next() ([]byte, error) {
	if !d.in.Scan() {
		if err := d.in.Err(); err != nil {
			return nil, fmt.Errorf("after line %d: %w", d.line, err)
		}
		return nil, io.EOF
	}
	d.line++
	return d.in.Bytes(), nil
}

// Next returns the next event, or io.EOF after the last one.
func (d *Decoder) Next() (Event, error) {
	line, err := d.next()
	for err == nil && len(line) == 0 {
		line, err = d.next()
	}
	if err != nil {
		return Event{}, err
	}
	var seconds float64
	var e Event
	fields := []any{&seconds, &e.Kind, &e.Data}
	if err = json.Unmarshal(line, &fields); err != nil || len(fields) != 3 {
		return Event{}, fmt.Errorf("line %d is not an event of an asciicast", d.line)
	}
	if seconds < 0 || seconds > maxSeconds {
		return Event{}, fmt.Errorf("line %d has the time %g, which is not a time in a recording", d.line, seconds)
	}
	e.At = time.Duration(math.Round(seconds * float64(time.Second)))
	return e, nil
}
