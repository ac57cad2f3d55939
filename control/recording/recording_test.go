package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/klauspost/compress/gzip"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 123_456_789, time.UTC)

// The function `sample` returns a recording with a snapshot in several parts and some decisions. If the argument
// `whole` is false, the end of the recording is missing.
func sample(t testing.TB, whole bool) []byte {
	t.Helper()
	cfg := config.Default()
	cfg.ModelWeights = map[string]int{"h100": 2500}
	var out bytes.Buffer
	w, err := NewWriter(&out, NewHeader("s", "v1", cfg, noon))
	must(t, err)
	snapshot := ares.Batch{Revision: 7, Reset: true, At: noon}
	for i := range 2*partEvents + 1 {
		snapshot.Events = append(snapshot.Events, ares.Event{Revision: 3, Tenant: &ares.Tenant{ID: fmt.Sprintf("t%05d", 2*partEvents-i), Weight: 1, Revision: 3}})
	}
	must(t, w.Batch(snapshot))
	for i := range 50 {
		must(t, w.Batch(ares.Batch{Revision: int64(8 + i), At: noon, Events: []ares.Event{{Revision: int64(8 + i), Gone: ares.Gone{Kind: ares.KindTenant, ID: fmt.Sprintf("t%05d", i)}}}}))
		must(t, w.Decision(Decision{Revision: int64(8 + i), Now: noon, Digest: "d"}))
	}
	must(t, w.Flush())
	if whole {
		must(t, w.Close(EndClosed))
		if int(w.Size()) != out.Len() {
			t.Errorf("%d bytes were counted, %d written", w.Size(), out.Len())
		}
	}
	return out.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The function `read` reads a recording and counts its frames.
func read(data []byte) (batches, decisions, events int, end string, err error) {
	r, err := NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, 0, 0, "", err
	}
	for {
		f, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return batches, decisions, events, r.End, nil
		case err != nil:
			return batches, decisions, events, r.End, err
		case f.Batch != nil:
			batches++
			events += len(f.Batch.Events)
		default:
			decisions++
		}
	}
}

func TestRecordingIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	data := sample(t, true)
	batches, decisions, events, end, err := read(data)
	if batches != 51 || decisions != 50 || events != 2*partEvents+1+50 || end != EndClosed || err != nil {
		t.Errorf("read %d batches, %d decisions, %d events, %q, %v", batches, decisions, events, end, err)
	}
	r, err := NewReader(bytes.NewReader(data))
	must(t, err)
	if h := r.Header; h.Server != "s" || h.Build != "v1" || !h.Began.Equal(noon) || h.Config.Digest() != h.Digest || h.Config.ModelWeights["h100"] != 2500 {
		t.Errorf("the header is %+v", h)
	}
	f, err := r.Next()
	must(t, err)
	if b := f.Batch; !b.Reset || !b.At.Equal(noon) || b.Events[0].Tenant.ID != "t00000" || b.Events[partEvents].Tenant.ID != fmt.Sprintf("t%05d", partEvents) {
		t.Errorf("the snapshot is not whole, or not sorted")
	}
}

// TestTornRecordings checks that a file truncated at any byte can be read up to its last complete
// frame. The recording then has no end mark.
func TestTornRecordings(t *testing.T) {
	t.Parallel()
	data := sample(t, false)
	last := 0
	for cut := len(data); cut > 0; cut -= 1 + cut/15 {
		batches, decisions, _, end, err := read(data[:cut])
		if ares.CodeOf(err) == ares.Invalid && batches == 0 {
			continue // even the header is incomplete
		}
		if err != nil || end != "" || decisions > batches || cut == len(data) && decisions != 50 {
			t.Errorf("cut at %d of %d: %d batches, %d decisions, %q, %v", cut, len(data), batches, decisions, end, err)
		}
		if cut < len(data) && decisions > last {
			t.Errorf("cut at %d there are more decisions (%d) than later (%d)", cut, decisions, last)
		}
		last = decisions
	}
}

func TestInvalidRecordings(t *testing.T) {
	t.Parallel()
	zipped := func(frame func(*Writer) error) string {
		var out bytes.Buffer
		w := &Writer{zip: gzip.NewWriter(&out)}
		must(t, frame(w))
		must(t, w.zip.Close())
		return out.String()
	}
	newer := NewHeader("s", "v9", config.Default(), noon)
	newer.Version++
	other := NewHeader("s", "v9", config.Default(), noon)
	other.Digest = "another"
	for want, data := range map[string]string{
		"not a recording":   "timestamp,duration\n",
		"is empty":          zipped(func(*Writer) error { return nil }),
		"use a newer":       zipped(func(w *Writer) error { return w.json(frameHeader, newer) }),
		"different options": zipped(func(w *Writer) error { return w.json(frameHeader, other) }),
		"cannot read its header": zipped(func(w *Writer) error {
			return w.frame(frameHeader, []byte(`{"format":"ares recording","version":1,"config":{"Telepathy":true}}`))
		}),
	} {
		if _, _, _, _, err := read([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// FuzzReader checks that arbitrary bytes cause no panic. If the file states a huge length, the reader must not allocate
// that much memory.
func FuzzReader(f *testing.F) {
	for _, whole := range []bool{true, false} {
		in, err := gzip.NewReader(bytes.NewReader(sample(f, whole)))
		must(f, err)
		plain, _ := io.ReadAll(in) // the missing end is reported as an unexpected EOF
		f.Add(plain)
		f.Add(plain[:len(plain)/2])
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		_, err := z.Write(plain)
		must(t, err)
		must(t, z.Close())
		_, _, _, _, err = read(zipped.Bytes())
		if err != nil && ares.CodeOf(err) != ares.Invalid {
			t.Fatal(err)
		}
	})
}

// TestDecisionIsEncodedAsJSON compares the encoding of decisions with package json.
func TestDecisionIsEncodedAsJSON(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_000, time.UTC)
	for _, d := range []Decision{
		{Now: at},
		{Revision: 7, Now: at, Digest: "00ff", Placed: 1, Ready: 2, Arrays: 3, Stopped: 4},
		{Revision: -1, Now: at.Truncate(time.Second), Digest: "00ff", Stopped: 4},
	} {
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.appendJSON(nil); string(got) != string(want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
