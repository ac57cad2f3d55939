package pipeline

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares/api/method"
)

// auditObject returns the name of a call's object. If the response has the name, as for a
// submission, the name comes from the response. Otherwise it comes from the request.
func auditObject(rule *method.AuditRule, req, resp proto.Message) string {
	var parts []string
	if rule.Kind != "" {
		parts = append(parts, rule.Kind)
	}
	for _, name := range rule.Names {
		value := textAt(resp, name)
		if value == "" {
			value = textAt(req, name)
		}
		if value != "" {
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, "/")
}

// textAt reads a string field of a message by its path. It returns "" if the field does not exist.
func textAt(m proto.Message, path string) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	at := m.ProtoReflect()
	for {
		name, rest, more := strings.Cut(path, ".")
		field := at.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil || field.IsList() || field.IsMap():
			return ""
		case !more && field.Kind() == protoreflect.StringKind:
			return at.Get(field).String()
		case !more || field.Kind() != protoreflect.MessageKind:
			return ""
		}
		at, path = at.Get(field).Message(), rest
	}
}
