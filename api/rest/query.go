package rest

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ares-scheduler/ares/api/method"
)

// queryError returns an error that names the wrong fields in the query of a
// failed call, or nil if the query is valid. queryError parses the query again,
// because the generated gateway passes on only the error's text.
func queryError(r *http.Request) error {
	m, route := method.Find(r.Method, r.URL.Path)
	if m == nil || r.URL.RawQuery == "" || route.Body == "*" {
		return nil
	}
	name := strings.ReplaceAll(strings.TrimPrefix(m.Name, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	rpc, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return nil // not a method of the contract
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(rpc.Input().FullName())
	if err != nil {
		return nil
	}
	return ReadQuery(kind.New().Interface(), r.URL.RawQuery, append(route.Variables(), route.Body)...)
}
