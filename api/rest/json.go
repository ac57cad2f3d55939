package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
)

// PublicJSON decodes REST requests from JSON and encodes answers as JSON.
// PublicJSON writes every number, string and list of an answer, even if the
// value is zero or empty. It leaves out absent messages. A job's spec is the
// exception: PublicJSON leaves out its empty fields. Therefore the spec
// contains only the submitted fields and the fields with a default value.
type PublicJSON struct{}

var (
	full = protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}
	Lean = protojson.MarshalOptions{UseProtoNames: true}
)

// Marshal implements runtime.Marshaler.
func (PublicJSON) Marshal(v any) ([]byte, error) {
	if job, ok := v.(*apipb.Job); ok {
		return marshalJob(job)
	}
	m, ok := v.(proto.Message)
	if !ok {
		return json.Marshal(v)
	}
	if data, plain := marshalPlain(m); plain {
		return data, nil
	}
	return Compact(full.Marshal(m))
}

func marshalJob(job *apipb.Job) ([]byte, error) {
	spec := job.GetSpec()
	job.Spec = nil // the answer is not shared, so it can be changed
	out, err := Compact(full.Marshal(job))
	job.Spec = spec
	if err != nil || spec == nil {
		return out, err
	}
	inner, err := Compact(Lean.Marshal(spec))
	if err != nil {
		return nil, err
	}
	out = append(out[:len(out)-1], `,"spec":`...)
	return append(append(out, inner...), '}'), nil
}

// Compact removes the spaces that protojson inserts at random.
func Compact(data []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(len(data))
	err = json.Compact(&b, data)
	return b.Bytes(), err
}

// Unmarshal implements runtime.Marshaler.
func (PublicJSON) Unmarshal(data []byte, v any) error { return UnmarshalBody(data, v) }

// NewDecoder implements runtime.Marshaler. The decoder also stores a decoding
// error in the `body` value, because the generated code keeps only the error's
// text.
func (PublicJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		err = UnmarshalBody(data, v)
		if b, ok := r.(*body); ok {
			b.err = err
		}
		return err
	})
}

// UnmarshalBody decodes a request body into v. If the body holds the whole
// request, v is a message. If the body holds only one field, v is a pointer to
// a nil message pointer.
func UnmarshalBody(data []byte, v any) error {
	m, whole := v.(proto.Message)
	if !whole {
		field := reflect.ValueOf(v)
		if field.Kind() != reflect.Pointer || field.Elem().Kind() != reflect.Pointer {
			return ares.Errorf(ares.Internal, "a request body cannot be decoded into type %T", v)
		}
		field.Elem().Set(reflect.New(field.Elem().Type().Elem()))
		if m, whole = reflect.TypeAssert[proto.Message](field.Elem()); !whole {
			return ares.Errorf(ares.Internal, "a request body cannot be decoded into type %T", v)
		}
	} else if len(bytes.TrimSpace(data)) == 0 {
		return io.EOF // the gateway treats an empty body as one without fields; validation follows
	}
	return apipb.UnmarshalJSON(data, m)
}

// NewEncoder implements runtime.Marshaler.
func (p PublicJSON) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := p.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// ContentType implements runtime.Marshaler.
func (PublicJSON) ContentType(any) string { return "application/json" }

// queryParser parses the query of a GET request as strictly as UnmarshalBody
// parses a body.
type queryParser struct{}

// Parse implements runtime.QueryParameterParser.
func (queryParser) Parse(m proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	var path []string
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); filter.HasCommonPrefix([]string{name}) {
			path = append(path, name)
		}
	}
	return setFields(m, values, path)
}

// ReadQuery parses a raw query into m. ReadQuery rejects the fields in `path`,
// because their values come from the URL path.
func ReadQuery(m proto.Message, raw string, path ...string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return ares.Errorf(ares.Invalid, "the query string of the URL is invalid: %s", err)
	}
	return setFields(m, values, path)
}

func setFields(m proto.Message, values url.Values, path []string) error {
	var p ares.Problems
	msg := m.ProtoReflect()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fd := msg.Descriptor().Fields().ByName(protoreflect.Name(key))
		switch {
		case fd == nil || slices.Contains(path, key):
			p.Add(ares.Clip(key), "there is no such parameter: use %s", service.FieldNames(msg.Descriptor(), path))
		case fd.IsList():
			for _, s := range values[key] {
				if v, problem := scalar(fd, s); problem != "" {
					p.Add(key, "%s", problem)
				} else {
					msg.Mutable(fd).List().Append(v)
				}
			}
		case len(values[key]) > 1:
			p.Add(key, "appears twice: remove one")
		default:
			if v, problem := scalar(fd, values.Get(key)); problem != "" {
				p.Add(key, "%s", problem)
			} else {
				msg.Set(fd, v)
			}
		}
	}
	return p.Err()
}

// The function `scalar` parses one value of a query.
func scalar(fd protoreflect.FieldDescriptor, s string) (v protoreflect.Value, problem string) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if !utf8.ValidString(s) {
			return v, "is not valid UTF-8"
		}
		return protoreflect.ValueOfString(s), ""
	case protoreflect.BoolKind:
		if s == "" { // such as ?follow
			return protoreflect.ValueOfBool(true), ""
		}
		b, err := strconv.ParseBool(s)
		if err != nil {
			return v, "want true or false, got " + strconv.Quote(ares.Clip(s))
		}
		return protoreflect.ValueOfBool(b), ""
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return v, "want a whole number, got " + strconv.Quote(ares.Clip(s))
		}
		return protoreflect.ValueOfInt32(int32(n)), ""
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return v, "want a whole number, got " + strconv.Quote(ares.Clip(s))
		}
		return protoreflect.ValueOfInt64(n), ""
	case protoreflect.MessageKind:
		if fd.Name() == service.MaskField {
			return protoreflect.ValueOfMessage(maskOf(s).ProtoReflect()), ""
		}
		at, err := time.Parse(time.RFC3339Nano, s)
		if fd.Message().FullName() != "google.protobuf.Timestamp" {
			return v, "cannot be given in a URL"
		}
		if err != nil {
			return v, "want a time such as 2026-01-31T18:00:00Z, got " + strconv.Quote(ares.Clip(s))
		}
		return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), ""
	default:
		return v, "cannot be given in a URL"
	}
}
