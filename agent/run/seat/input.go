//go:build linux

package seat

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// A job with Spec.Stdin or Spec.Terminal gets input through its supervisor, which holds the other end of the pipe or of the terminal. The
// requests on ControlFile are:
//
//	input begin <writer>             ok <written>
//	input continue <writer>          ok <written>
//	input write <writer> <at>\n...   ok <written>
//	input end <writer> <at>          ok <written>
//	input resize <writer> <c> <r>    ok <written>
//
// The input of a job is one stream of bytes, and the supervisor counts those that it has written: <written>. It is the one that writes and
// counts, and it lives exactly as long as the pipe, so the number is never wrong: neither an agent nor a server can die between a write and
// its record. A request to write names the position of its first byte. Bytes before <written> are dropped, because they were written
// already, and a request whose first byte is after <written> is refused. So every request may be repeated.
//
// The same position must mean the same byte, so one writer writes at a time: the one that began last. All requests of another one are
// refused.
const InputRequest = "input "

// The reasons for which a supervisor refuses input.
const (
	InputNone   = "none"   // the job has no standard input
	InputTaken  = "taken"  // another writer has begun
	InputClosed = "closed" // the input has ended, or no process of the job has it open any more
	InputGap    = "gap"    // bytes before the request's first byte are missing
)

const (
	// MaxInput is the maximum number of bytes in one request. It is what a pipe takes either as a whole or not at all.
	MaxInput = 4 << 10
	// MaxInputHeader is the maximum length of the rest of a request.
	MaxInputHeader = 128
	// MaxTerminal is the maximum number of columns and of rows of a terminal.
	MaxTerminal = 10_000
)

// Input is one request for the input of a job.
type Input struct {
	Verb, Writer string
	At           int64 // for write and end
	Data         []byte
	Columns      uint16 // for resize
	Rows         uint16
}

// Encode returns the text of the request.
func (i *Input) Encode() []byte {
	text := InputRequest + i.Verb + " " + i.Writer
	switch i.Verb {
	case "write", "end":
		text += " " + strconv.FormatInt(i.At, 10)
	case "resize":
		text += " " + strconv.Itoa(int(i.Columns)) + " " + strconv.Itoa(int(i.Rows))
	}
	return append([]byte(text+"\n"), i.Data...)
}

// DecodeInput parses the output of Encode. The data shares its memory with b.
func DecodeInput(b []byte) (Input, error) {
	header, data, ok := bytes.Cut(b, []byte("\n"))
	words := strings.Split(string(header), " ")
	if !ok || len(words) < 3 || words[0]+" " != InputRequest || words[2] == "" {
		return Input{}, ErrTorn
	}
	i := Input{Verb: words[1], Writer: words[2]}
	arguments := words[3:]
	numbers := make([]int64, len(arguments))
	for k, word := range arguments {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return Input{}, errors.New("not a number: " + word)
		}
		numbers[k] = n
	}
	want := map[string]int{"begin": 0, "continue": 0, "write": 1, "end": 1, "resize": 2}
	count, known := want[i.Verb]
	if !known || len(numbers) != count || len(data) > MaxInput || len(data) > 0 && i.Verb != "write" {
		return Input{}, errors.New("unknown request: " + i.Verb)
	}
	switch i.Verb {
	case "write", "end":
		i.At, i.Data = numbers[0], data
	case "resize":
		if numbers[0] < 1 || numbers[0] > MaxTerminal || numbers[1] < 1 || numbers[1] > MaxTerminal {
			return Input{}, errors.New("the size of a terminal must be between 1 and " + strconv.Itoa(MaxTerminal))
		}
		i.Columns, i.Rows = uint16(numbers[0]), uint16(numbers[1])
	}
	return i, nil
}
