package api

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
	"github.com/ares-scheduler/ares/apipb"
)

// publicJSON is the marshaler of the REST door. Of an answer it writes every
// number, text and list, also when it is zero or empty, but no message that is
// absent. A job's spec is the exception: it repeats what was asked for and
// writes only what was said or has a default.
type publicJSON struct{}

var (
	full = protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}
	lean = protojson.MarshalOptions{UseProtoNames: true}
)

// Marshal implements runtime.Marshaler.
func (publicJSON) Marshal(v any) ([]byte, error) {
	if job, ok := v.(*apipb.Job); ok {
		return marshalJob(job)
	}
	m, ok := v.(proto.Message)
	if !ok {
		return json.Marshal(v)
	}
	return compact(full.Marshal(m))
}

func marshalJob(job *apipb.Job) ([]byte, error) {
	spec := job.GetSpec()
	job.Spec = nil // the answer is ours alone
	out, err := compact(full.Marshal(job))
	job.Spec = spec
	if err != nil || spec == nil {
		return out, err
	}
	inner, err := compact(lean.Marshal(spec))
	if err != nil {
		return nil, err
	}
	out = append(out[:len(out)-1], `,"spec":`...)
	return append(append(out, inner...), '}'), nil
}

// compact takes out the spaces protojson puts in at random.
func compact(data []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(len(data))
	err = json.Compact(&b, data)
	return b.Bytes(), err
}

// Unmarshal implements runtime.Marshaler.
func (publicJSON) Unmarshal(data []byte, v any) error { return unmarshalBody(data, v) }

// NewDecoder implements runtime.Marshaler. What is wrong with a body is also
// left at the body, because the generated code keeps only the error's text.
func (publicJSON) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		err = unmarshalBody(data, v)
		if b, ok := r.(*body); ok {
			b.err = err
		}
		return err
	})
}

// unmarshalBody reads a request. v is a message, or a pointer to a message
// that is still nil when the body is a field of the request.
func unmarshalBody(data []byte, v any) error {
	m, whole := v.(proto.Message)
	if !whole {
		field := reflect.ValueOf(v)
		if field.Kind() != reflect.Pointer || field.Elem().Kind() != reflect.Pointer {
			return ares.Errorf(ares.Internal, "cannot read a body into a %T", v)
		}
		field.Elem().Set(reflect.New(field.Elem().Type().Elem()))
		if m, whole = reflect.TypeAssert[proto.Message](field.Elem()); !whole {
			return ares.Errorf(ares.Internal, "cannot read a body into a %T", v)
		}
	} else if len(bytes.TrimSpace(data)) == 0 {
		return io.EOF // every field may be left out, says the gateway; validation follows
	}
	return apipb.UnmarshalJSON(data, m)
}

// NewEncoder implements runtime.Marshaler.
func (p publicJSON) NewEncoder(w io.Writer) runtime.Encoder {
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
func (publicJSON) ContentType(any) string { return "application/json" }

// queryParser reads the query of a GET as strictly as a body is read.
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

// readQuery reads a raw query into m; fields in path come from elsewhere.
func readQuery(m proto.Message, raw string, path ...string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return ares.Errorf(ares.Invalid, "the query of the URL cannot be read: %s", err)
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
			p.Add(clip(key), "there is no such parameter: use %s", names(msg.Descriptor(), path))
		case fd.IsList():
			for _, s := range values[key] {
				if v, problem := scalar(fd, s); problem != "" {
					p.Add(key, "%s", problem)
				} else {
					msg.Mutable(fd).List().Append(v)
				}
			}
		case len(values[key]) > 1:
			p.Add(key, "is there twice: keep one of them")
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

func names(d protoreflect.MessageDescriptor, path []string) string {
	out := ""
	for i := range d.Fields().Len() {
		if name := string(d.Fields().Get(i).Name()); !slices.Contains(path, name) {
			if out != "" {
				out += ", "
			}
			out += name
		}
	}
	return out
}

// scalar reads one value of a query.
func scalar(fd protoreflect.FieldDescriptor, s string) (v protoreflect.Value, problem string) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if !utf8.ValidString(s) {
			return v, "is not valid UTF-8"
		}
		return protoreflect.ValueOfString(s), ""
	case protoreflect.BoolKind:
		if s == "" { // ?follow
			return protoreflect.ValueOfBool(true), ""
		}
		b, err := strconv.ParseBool(s)
		if err != nil {
			return v, "want true or false, got " + strconv.Quote(clip(s))
		}
		return protoreflect.ValueOfBool(b), ""
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return v, "want a whole number, got " + strconv.Quote(clip(s))
		}
		return protoreflect.ValueOfInt32(int32(n)), ""
	case protoreflect.MessageKind:
		at, err := time.Parse(time.RFC3339Nano, s)
		if fd.Message().FullName() != "google.protobuf.Timestamp" {
			return v, "cannot be given in a URL"
		}
		if err != nil {
			return v, "want a time such as 2026-01-31T18:00:00Z, got " + strconv.Quote(clip(s))
		}
		return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), ""
	default:
		return v, "cannot be given in a URL"
	}
}
