package rest

import (
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ares-scheduler/ares/apipb"
)

// TestPlainAnswersAreThoseOfProtojson fills the fields of every message with random values. If marshalPlain encodes a message, the text must
// be that of protojson.
func TestPlainAnswersAreThoseOfProtojson(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	encoded := map[protoreflect.FullName]int{}
	pkg := (&apipb.Job{}).ProtoReflect().Descriptor().ParentFile().Package()
	for range 60 {
		protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
			if d := mt.Descriptor(); d.ParentFile().Package() != pkg || d.IsMapEntry() {
				return true
			}
			m := mt.New()
			draw(rnd, m, 3)
			want, err := Compact(full.Marshal(m.Interface()))
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := marshalPlain(m.Interface()); ok {
				if encoded[mt.Descriptor().FullName()]++; string(got) != string(want) {
					t.Fatalf("%s:\ngot  %s\nwant %s", mt.Descriptor().Name(), got, want)
				}
			}
			return true
		})
	}
	for _, m := range []proto.Message{&apipb.SubmitJobResponse{}, &apipb.SubmitJobsResponse{}, &apipb.CancelJobResponse{}} {
		if name := m.ProtoReflect().Descriptor().FullName(); encoded[name] == 0 {
			t.Errorf("%s is not a plain answer", name)
		}
	}
}

// TestSubmittedAnswersAreThoseOfPublicJSON compares the two encodings of answers to submissions.
func TestSubmittedAnswersAreThoseOfPublicJSON(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	encoded := 0
	for range 300 {
		m := &apipb.SubmitJobResponse{}
		draw(rnd, m.ProtoReflect(), 3)
		want, err := PublicJSON{}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := appendSubmitted(nil, m); ok {
			if encoded++; string(got) != string(want) {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
		}
	}
	if encoded == 0 {
		t.Error("no answer was encoded")
	}
}

// draw fills a message with random values.
func draw(rnd *rand.Rand, m protoreflect.Message, depth int) {
	words := []string{"", "train", "a b", "night", "x/y:z", "größe", `say "a"`, "tab\t", "<&>", "\x7f"}
	value := func(fd protoreflect.FieldDescriptor, of func() protoreflect.Value) protoreflect.Value {
		switch fd.Kind() {
		case protoreflect.StringKind:
			if rnd.IntN(8) > 0 {
				return protoreflect.ValueOfString(words[rnd.IntN(5)])
			}
			return protoreflect.ValueOfString(words[rnd.IntN(len(words))])
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(rnd.IntN(2) == 0)
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(int32(rnd.Uint32()))
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(int64(rnd.Uint64()))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte(words[rnd.IntN(len(words))]))
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(rnd.Float64())
		case protoreflect.MessageKind:
			v := of()
			if depth > 0 && fd.Message().ParentFile().Package() != "google.protobuf" {
				draw(rnd, v.Message(), depth-1)
			}
			return v
		default:
			return fd.Default()
		}
	}
	for i := range m.Descriptor().Fields().Len() {
		switch fd := m.Descriptor().Fields().Get(i); {
		case rnd.IntN(4) == 0 || fd.IsMap():
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range rnd.IntN(3) {
				list.Append(value(fd, list.NewElement))
			}
		default:
			m.Set(fd, value(fd, func() protoreflect.Value { return m.NewField(fd) }))
		}
	}
}
