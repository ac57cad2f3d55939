//go:build linux

package seat

import (
	"bytes"
	"testing"
)

// FuzzInput parses the requests for input that an agent sends to a supervisor.
func FuzzInput(f *testing.F) {
	for _, i := range []Input{
		{Verb: "begin", Writer: "a"}, {Verb: "continue", Writer: "a"}, {Verb: "write", Writer: "a", At: 7, Data: []byte("x\ny z")},
		{Verb: "end", Writer: "a", At: 1 << 40}, {Verb: "resize", Writer: "a", Columns: 80, Rows: 24},
	} {
		f.Add(i.Encode())
	}
	f.Add([]byte("input resize a 0 0\n"))
	f.Add([]byte("input write a -1\nx"))
	f.Add([]byte("input begin a\nx"))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := DecodeInput(b)
		if err != nil {
			return
		}
		again, err := DecodeInput(i.Encode())
		if err != nil || again.Verb != i.Verb || again.Writer != i.Writer || again.At != i.At || !bytes.Equal(again.Data, i.Data) || again.Columns != i.Columns || again.Rows != i.Rows {
			t.Fatalf("%+v becomes %+v, %v", i, again, err)
		}
		if i.At < 0 || i.Verb == "resize" && (i.Columns == 0 || i.Rows == 0 || i.Columns > MaxTerminal || i.Rows > MaxTerminal) {
			t.Fatalf("%+v was taken", i)
		}
	})
}
