package joblog

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestStampsEncoding encodes any records and decodes them. Garbage is refused, and what precedes it is kept.
func TestStampsEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in Stamps
		for range rapid.IntRange(0, 20).Draw(t, "records") {
			in = append(in, Stamp{
				Offset: rapid.Int64().Draw(t, "offset"), Time: rapid.Int64().Draw(t, "time"),
				Span: time.Duration(rapid.Int64Range(0, 1<<32-1).Draw(t, "span")) * time.Millisecond,
			})
		}
		b := in.Encode()
		out, err := DecodeStamps(b)
		if err != nil || len(out) != len(in) {
			t.Fatalf("%v, %v", out, err)
		}
		for i := range in {
			if in[i] != out[i] {
				t.Fatalf("%v became %v", in[i], out[i])
			}
		}
		if out, err = DecodeStamps(append(b, 0xff)); err == nil || len(out) != len(in) {
			t.Fatalf("with garbage: %d records, %v", len(out), err)
		}
	})
}
