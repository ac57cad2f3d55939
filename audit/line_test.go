package audit

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestLinesAreThoseOfEncodingJSON checks that entries are written and read exactly as encoding/json would do it. Every field is
// set in some entries and empty in others, so a field that is forgotten is noticed.
func TestLinesAreThoseOfEncodingJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 5))
	words := []string{"", "", "SUBMIT_JOB", "queue/red/night", "größe", `a"b\c`, "<&>", "10.0.0.1:4711", "\u2028", "\xff", "tab\t"}
	for range 20_000 {
		var e Entry
		v := reflect.ValueOf(&e).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); f.Interface().(type) {
			case string, Status:
				f.SetString(words[rnd.IntN(len(words))])
			case uint64:
				f.SetUint(rnd.Uint64N(1 << 40))
			case int:
				f.SetInt(int64(rnd.IntN(3) - 1))
			case bool:
				f.SetBool(rnd.IntN(2) == 0)
			case time.Time:
				if rnd.IntN(3) > 0 {
					f.Set(reflect.ValueOf(time.UnixMicro(rnd.Int64N(1 << 52)).UTC()))
				}
			default:
				t.Fatalf("the field %s has a type that this test does not know", v.Type().Field(i).Name)
			}
		}
		want, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.appendJSON([]byte("x"))
		if err != nil || !bytes.Equal(got[1:], want) {
			t.Fatalf("%v: got %s, want %s", err, got, want)
		}
		sameAsJSON(t, want)
		want[rnd.IntN(len(want))] = "{}\",:0 1e\\"[rnd.IntN(10)]
		sameAsJSON(t, want)
	}
}

// sameAsJSON checks that parseEntry reads an object as encoding/json does.
func sameAsJSON(t *testing.T, object []byte) {
	t.Helper()
	body, whole := bytes.CutSuffix(object, []byte{'}'})
	if !whole {
		return
	}
	var want Entry
	wanted := json.Unmarshal(object, &want)
	got, err := parseEntry(body)
	if (err == nil) != (wanted == nil) || err == nil && got != want {
		t.Fatalf("%s: got %+v %v, want %+v %v", object, got, err, want, wanted)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"seq":1,"time":"2026-01-31T18:00:00.123456Z","server":"s1","action":"SUBMIT_JOB","outside":true,"status":"done","count":3}`))
	f.Add([]byte(`{"seq":1,"seq":02,"Time":null}`))
	f.Fuzz(func(t *testing.T, object []byte) { sameAsJSON(t, object) })
}

func BenchmarkLine(b *testing.B) {
	e := Entry{
		Sequence: 77, Time: time.UnixMicro(1e15).UTC(), Server: "s1", Action: "SUBMIT_JOB", User: "admin", Tenant: "default", Object: "job_0123456789", Source: "127.0.0.1:4711",
		Door: "rest", Request: genesis, After: genesis, Status: Done, RequestID: "bench-1", Detail: "submitted", Previous: genesis,
	}
	line, err := e.Line()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if line, err = e.appendLine(line[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadLine(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}
