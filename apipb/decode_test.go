package apipb

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// sameAsFully checks that UnmarshalJSON and unmarshalFully treat a body alike. It reports whether the quick decoder read the body.
func sameAsFully(t *testing.T, body []byte, like proto.Message) (quick bool) {
	t.Helper()
	got, want := like.ProtoReflect().New().Interface(), like.ProtoReflect().New().Interface()
	err, wanted := UnmarshalJSON(body, got), unmarshalFully(body, want)
	if (err == nil) != (wanted == nil) || err != nil && err.Error() != wanted.Error() {
		t.Fatalf("%s: the error is %v, want %v", body, err, wanted)
	}
	if err == nil && !proto.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", body, got, want)
	}
	return utf8.Valid(body) && unmarshalQuickly(body, got)
}

// eachMessage calls the function with every message of the API, and with its generated type.
func eachMessage(t *testing.T, do func(d protoreflect.MessageDescriptor, m proto.Message)) {
	t.Helper()
	pkg, n := (&JobSpec{}).ProtoReflect().Descriptor().ParentFile().Package(), 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		if d := mt.Descriptor(); d.ParentFile().Package() == pkg && !d.IsMapEntry() {
			n++
			do(d, mt.New().Interface())
		}
		return true
	})
	if n < 50 {
		t.Fatalf("found only %d messages of the package %s", n, pkg)
	}
}

// TestQuickDecoderReadsEveryField checks each field of each message alone, with ordinary and unusual values.
func TestQuickDecoderReadsEveryField(t *testing.T) {
	values := []string{
		`null`, `true`, `false`, `0`, `1`, `-1`, `-0`, `01`, `1.0`, `1.5`, `0.25`, `1e3`, `2147483647`, `2147483648`, `-2147483648`, `-2147483649`,
		`9223372036854775807`, `9223372036854775808`, `123456789012345678`, `""`, `"a"`, `"é"`, `"\n\"\\\/\t"`, `"\u00e9\u003c"`, `"\ud83d\ude00"`, `"\ud800"`, `"\u0000"`,
		`"\x"`, `"1"`, `"2026-01-31T18:00:00Z"`, "\"\x01\"", `[]`, `[null]`, `["a"]`, `["a","b"]`, `[1,2]`, `[true]`, `[0.5]`, `[{}]`, `[{},{}]`, `["a",]`, `{}`, `{"a":"b"}`,
		`{"a":"b","c":"d"}`, `{"a":"b","a":"c"}`, `{"a":1}`, `{"":""}`, `{"a":"b",}`, ` 7 `, `.5`, `5.`, `- 1`, `+1`, `tru`, `truefalse`, `1 2`,
	}
	quick := map[protoreflect.Kind]int{}
	eachMessage(t, func(d protoreflect.MessageDescriptor, m proto.Message) {
		for i := range d.Fields().Len() {
			fd := d.Fields().Get(i)
			for _, v := range values {
				if sameAsFully(t, fmt.Appendf(nil, `{%q:%s}`, fd.Name(), v), m) && v != `null` {
					quick[fd.Kind()]++
				}
			}
		}
	})
	for _, k := range []protoreflect.Kind{protoreflect.StringKind, protoreflect.BoolKind, protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.DoubleKind, protoreflect.MessageKind} {
		if quick[k] == 0 {
			t.Errorf("the quick decoder read no field of kind %s", k)
		}
	}
}

// TestQuickDecoderReadsWholeBodies checks bodies with many fields, and bodies with a mistake anywhere.
func TestQuickDecoderReadsWholeBodies(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	total, quick := 0, 0
	for range 40 {
		eachMessage(t, func(d protoreflect.MessageDescriptor, m proto.Message) {
			body := drawJSON(rnd, d, 3)
			total++
			if sameAsFully(t, []byte(body), m) {
				quick++
			}
			damaged := []byte(body)
			damaged[rnd.IntN(len(damaged))] = "{}[]\",:0 x"[rnd.IntN(10)]
			sameAsFully(t, damaged, m)
			sameAsFully(t, []byte(body[:rnd.IntN(len(body))]), m)
			sameAsFully(t, []byte(body+" "+body), m)
		})
	}
	if quick < total/3 {
		t.Errorf("the quick decoder read only %d of %d bodies", quick, total)
	}
}

// drawJSON returns a random object of a type.
func drawJSON(rnd *rand.Rand, d protoreflect.MessageDescriptor, depth int) string {
	var parts []string
	for _, i := range rnd.Perm(d.Fields().Len()) {
		if fd := d.Fields().Get(i); rnd.IntN(3) > 0 && len(parts) < 12 {
			parts = append(parts, fmt.Sprintf(`%q:%s`, fd.Name(), drawField(rnd, fd, depth)))
		}
	}
	return "{" + strings.Join(parts, []string{",", ", ", " ,\n\t"}[rnd.IntN(3)]) + "}"
}

func drawField(rnd *rand.Rand, fd protoreflect.FieldDescriptor, depth int) string {
	switch {
	case rnd.IntN(50) == 0:
		return "null"
	case fd.IsMap():
		return fmt.Sprintf(`{"a%d":%s,"b":%s}`, rnd.IntN(9), drawValue(rnd, fd.MapValue(), depth), drawValue(rnd, fd.MapValue(), depth))
	case fd.IsList():
		var all []string
		for range rnd.IntN(4) {
			all = append(all, drawValue(rnd, fd, depth))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	return drawValue(rnd, fd, depth)
}

func drawValue(rnd *rand.Rand, fd protoreflect.FieldDescriptor, depth int) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return []string{`""`, `"train"`, `"größe"`, `"a\nb\u003c"`, `"x y"`}[rnd.IntN(5)]
	case protoreflect.BoolKind:
		return []string{"true", "false"}[rnd.IntN(2)]
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return []string{"0", "1.5", "0.001", "12345.678"}[rnd.IntN(4)]
	case protoreflect.MessageKind:
		switch {
		case fd.Message().FullName() == "google.protobuf.Timestamp":
			return `"2026-01-31T18:00:00Z"`
		case fd.Message().ParentFile().Package() == "google.protobuf" || depth == 0:
			return "{}"
		}
		return drawJSON(rnd, fd.Message(), depth-1)
	default:
		return []string{"0", "1", "42", "100000"}[rnd.IntN(4)]
	}
}

// TestQuickDecoderLeavesRareTypes checks that a message with more fields than the decoder can count is left to protojson, and that a
// nested body does not exhaust the stack.
func TestQuickDecoderLeavesRareTypes(t *testing.T) {
	if unmarshalQuickly([]byte(`{"name":"a"}`), dynamicpb.NewMessage((&JobSpec{}).ProtoReflect().Descriptor())) != true {
		t.Error("an ordinary body was not read")
	}
	deep := strings.Repeat(`{"placement":`, 5000)
	if unmarshalQuickly([]byte(deep), &JobSpec{}) {
		t.Error("a body without an end was read")
	}
}

// FuzzQuickDecoder looks for a body that UnmarshalJSON and unmarshalFully treat differently.
func FuzzQuickDecoder(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"job":{"command":["a"],"gpu_count":1}}`, `{"job":{"environment":{"A":"b","C":"\u0041"}}}`, `{"job":{"retry":{"multiplier":1.5,"max_retries":0}}}`,
		`{"job":{"deadline":"2026-01-31T18:00:00Z"}}`, `{"job":{"gang_scheduling":true,"priority":-5},"job":null}`, ` { "job" : null } `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sameAsFully(t, body, &SubmitJobRequest{})
		sameAsFully(t, body, &SubmitJobsRequest{})
	})
}

func BenchmarkUnmarshalJSON(b *testing.B) {
	body := []byte(`{"tenant_id":"default","request_id":"bench-64-1","name":"train-resnet","gpu_count":4,"cpu_cores":16,"memory_mb":64000,"gpu_memory_mb":40000,
		"command":["python","train.py"],"args":["--epochs","100"],"image":"pytorch:2.0"}`)
	for _, c := range []struct {
		name string
		read func([]byte, proto.Message) error
	}{{"quick", UnmarshalJSON}, {"full", unmarshalFully}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.read(body, &JobSpec{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
