package pipeline

import (
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ares-scheduler/ares/apipb"
)

// TestSimpleRulesAreThoseOfProtovalidate compares the quick answer with that of protovalidate, for an empty message of every type, and for
// messages in which one field is set.
func TestSimpleRulesAreThoseOfProtovalidate(t *testing.T) {
	validator, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	pkg := (&apipb.Job{}).ProtoReflect().Descriptor().ParentFile().Package()
	quick := map[protoreflect.FullName]bool{}
	check := func(m protoreflect.Message) {
		if !meetsSimpleRules(m) {
			return
		}
		quick[m.Descriptor().FullName()] = true
		if err := validator.Validate(m.Interface()); err != nil {
			t.Errorf("%s %v: protovalidate rejects it: %v", m.Descriptor().Name(), m.Interface(), err)
		}
	}
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		d := mt.Descriptor()
		if d.ParentFile().Package() != pkg || d.IsMapEntry() {
			return true
		}
		check(mt.New())
		for i := range d.Fields().Len() {
			m, f := mt.New(), d.Fields().Get(i)
			switch {
			case f.IsMap():
			case f.IsList():
				m.Mutable(f).List().Append(m.NewField(f).List().NewElement())
			case f.Message() != nil:
				m.Mutable(f)
			default:
				m.Set(f, f.Default())
			}
			check(m)
		}
		return true
	})
	if name := (&apipb.SubmitJobRequest{}).ProtoReflect().Descriptor().FullName(); !quick[name] {
		t.Errorf("the rules of %s are not simple", name)
	}
	for _, m := range []proto.Message{&apipb.SubmitJobRequest{}, &apipb.SubmitJobsRequest{}} {
		if meetsSimpleRules(m.ProtoReflect()) {
			t.Errorf("an empty %s passed", m.ProtoReflect().Descriptor().Name())
		}
	}
}
