package rest

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/ares-scheduler/ares/api/service"
)

// bodyKey is the context key of a REST request's body.
type bodyKey struct{}

// setMask sets the update mask of a REST update that has none. The mask lists
// the fields that the JSON body contains. Therefore a field whose value is null
// or an empty list differs from an absent field.
func setMask(ctx context.Context, request any) {
	m, ok := request.(proto.Message)
	b, rest := ctx.Value(bodyKey{}).(*body)
	if !ok || !rest {
		return
	}
	fd := m.ProtoReflect().Descriptor().Fields().ByName(service.MaskField)
	if fd == nil || m.ProtoReflect().Has(fd) {
		return
	}
	names := map[string]json.RawMessage{}
	data := make([]byte, b.Size())
	if _, err := b.ReadAt(data, 0); err != nil && err != io.EOF { //nolint:errorlint // ReadAt of a bytes.Reader
		return
	}
	if json.Unmarshal(data, &names) == nil && len(names) > 0 {
		mask := &fieldmaskpb.FieldMask{Paths: slices.Sorted(maps.Keys(names))}
		m.ProtoReflect().Set(fd, protoreflect.ValueOfMessage(mask.ProtoReflect()))
	}
}

// maskOf parses a mask from a query: field names separated by commas.
func maskOf(s string) *fieldmaskpb.FieldMask {
	mask := &fieldmaskpb.FieldMask{}
	for name := range strings.SplitSeq(s, ",") {
		mask.Paths = append(mask.Paths, strings.TrimSpace(name))
	}
	return mask
}
