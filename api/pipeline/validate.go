package pipeline

import (
	"slices"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// simpleRules are the rules of a message type if they only say that some fields are required. Most requests, such as submissions, have no
// other rules, and protovalidate would walk through the whole message to find out.
type simpleRules struct {
	only     bool // there are no rules except that the fields in `required` must be set
	required []protoreflect.FieldDescriptor
}

// rulesByType caches simpleRulesOf by the name of the type.
var rulesByType sync.Map

// meetsSimpleRules reports whether a message is valid, for a type with simple rules. It returns false if protovalidate must decide.
func meetsSimpleRules(m protoreflect.Message) bool {
	d := m.Descriptor()
	known, ok := rulesByType.Load(d.FullName())
	if !ok {
		known, _ = rulesByType.LoadOrStore(d.FullName(), simpleRulesOf(d))
	}
	rules := known.(simpleRules)
	return rules.only && !slices.ContainsFunc(rules.required, func(f protoreflect.FieldDescriptor) bool { return !m.Has(f) })
}

// simpleRulesOf finds the rules of a type. A required field is simple only in the type itself and if it is a message, because only then
// it is set or not whatever its value is.
func simpleRulesOf(d protoreflect.MessageDescriptor) simpleRules {
	out := simpleRules{}
	fields := d.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		rules, err := protovalidate.ResolveFieldRules(f)
		if err != nil {
			return simpleRules{}
		}
		if rules.GetRequired() && f.Message() != nil && f.Cardinality() != protoreflect.Repeated && f.ContainingOneof() == nil {
			rules = proto.CloneOf(rules)
			rules.Required = nil
			out.required = append(out.required, f)
		}
		if proto.Size(rules) > 0 || f.Message() != nil && !hasNoRules(f.Message(), map[protoreflect.FullName]bool{}) {
			return simpleRules{}
		}
	}
	out.only = hasNoOwnRules(d)
	return out
}

// hasNoRules reports whether neither a type nor any type below it has rules. The map contains the types that are being looked at.
func hasNoRules(d protoreflect.MessageDescriptor, visited map[protoreflect.FullName]bool) bool {
	if visited[d.FullName()] {
		return true // its rules are found by the call that visits it
	}
	visited[d.FullName()] = true
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		rules, err := protovalidate.ResolveFieldRules(f)
		if err != nil || proto.Size(rules) > 0 || f.Message() != nil && !hasNoRules(f.Message(), visited) {
			return false
		}
	}
	return hasNoOwnRules(d)
}

// hasNoOwnRules reports whether a type has no rules apart from those of its fields.
func hasNoOwnRules(d protoreflect.MessageDescriptor) bool {
	rules, err := protovalidate.ResolveMessageRules(d)
	if err != nil || proto.Size(rules) > 0 {
		return false
	}
	for i := range d.Oneofs().Len() {
		if rules, err := protovalidate.ResolveOneofRules(d.Oneofs().Get(i)); err != nil || proto.Size(rules) > 0 {
			return false
		}
	}
	return true
}
