package rest

import (
	"strconv"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file encodes simple answers, such as those to submissions, without protojson. The text is the same, byte for byte. Answers with
// types that have a JSON form of their own are left to protojson.

// plainTypes caches isPlainType by the name of the type.
var plainTypes sync.Map

// isPlainType reports whether a message has only strings, booleans, integers, lists of them, and plain messages.
func isPlainType(d protoreflect.MessageDescriptor) bool {
	if known, ok := plainTypes.Load(d.FullName()); ok {
		return known.(bool)
	}
	plainTypes.Store(d.FullName(), false) // a type that contains itself is left to protojson
	plain := d.Oneofs().Len() == 0 && d.ParentFile().Package() != "google.protobuf"
	for i := range d.Fields().Len() {
		switch fd := d.Fields().Get(i); fd.Kind() {
		case protoreflect.StringKind, protoreflect.BoolKind, protoreflect.Int32Kind, protoreflect.Int64Kind:
		case protoreflect.MessageKind:
			plain = plain && !fd.IsMap() && isPlainType(fd.Message())
		default:
			plain = false
		}
	}
	plainTypes.Store(d.FullName(), plain)
	return plain
}

// marshalPlain encodes an answer as the variable `full` does. It returns false if the answer is left to protojson.
func marshalPlain(m proto.Message) ([]byte, bool) {
	if !isPlainType(m.ProtoReflect().Descriptor()) {
		return nil, false
	}
	return appendMessage(make([]byte, 0, 256), m.ProtoReflect())
}

func appendMessage(b []byte, m protoreflect.Message) (_ []byte, ok bool) {
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Kind() == protoreflect.MessageKind && !fd.IsList() && !m.Has(fd) {
			continue // an absent message is left out
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), fd.Name()...), '"', ':')
		if !fd.IsList() {
			b, ok = appendValue(b, fd, m.Get(fd))
		} else {
			b, ok = appendList(b, fd, m.Get(fd).List())
		}
		if !ok {
			return nil, false
		}
	}
	return append(b, '}'), true
}

func appendList(b []byte, fd protoreflect.FieldDescriptor, list protoreflect.List) (_ []byte, ok bool) {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendValue(b, fd, list.Get(i)); !ok {
			return nil, false
		}
	}
	return append(b, ']'), true
}

func appendValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, bool) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return appendText(b, v.String())
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), true
	case protoreflect.Int32Kind:
		return strconv.AppendInt(b, v.Int(), 10), true
	case protoreflect.Int64Kind: // a string, because many programs read numbers as floating point
		return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"'), true
	default:
		return appendMessage(b, v.Message())
	}
}

// appendText appends a string. Strings that need escapes are left to protojson.
func appendText(b []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return nil, false
		}
	}
	return append(append(append(b, '"'), s...), '"'), true
}
