package apipb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares"
)

// These constants limit the nesting depth of a JSON request, and the number of
// mistakes that one answer reports.
const (
	maxJSONDepth    = 32
	maxJSONProblems = 10
)

// UnmarshalJSON reads a request body into m. UnmarshalJSON accepts only the public form: snake_case
// names, numbers as JSON numbers, and null for a missing value. Every mistake is returned as an
// ares.Invalid that names the field and the expected value.
func UnmarshalJSON(data []byte, m proto.Message) error {
	if utf8.Valid(data) && unmarshalQuickly(data, m) {
		return nil
	}
	return unmarshalFully(data, m)
}

// unmarshalFully reads a body that unmarshalQuickly does not read.
func unmarshalFully(data []byte, m proto.Message) error {
	data, err := splitCPUFractions(data)
	if err != nil {
		return err
	}
	if err := ExplainJSON(data, m); err != nil {
		return err
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		return ares.Errorf(ares.Invalid, "cannot read the JSON: %s", strings.TrimPrefix(cut(withoutBytes(err.Error()), 300), "proto: "))
	}
	return nil
}

// ExplainJSON compares data with m's descriptor. ExplainJSON returns an error that lists everything that
// UnmarshalJSON would reject, or nil if there is nothing to reject. ExplainJSON does not change m.
func ExplainJSON(data []byte, m proto.Message) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return ares.Errorf(ares.Invalid, "the body is empty: send a JSON object")
	}
	if !utf8.Valid(data) {
		return ares.Errorf(ares.Invalid, "the body is not valid UTF-8 at byte %d: save it as UTF-8", firstInvalid(data))
	}
	x := explainer{dec: json.NewDecoder(bytes.NewReader(data)), data: data}
	x.dec.UseNumber()
	if err := x.document(m.ProtoReflect().Descriptor()); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if len(x.problems) == 1 {
		p := x.problems[0]
		return ares.Errorf(ares.Invalid, "%s: %s", p.Field, p.Message).At(p.Field)
	}
	return x.problems.Err()
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// errEnough ends the check of a body once the maximum number of mistakes is found.
var errEnough = errors.New("enough problems")

// The type `explainer` checks one request body. An explainer's methods return an error only if the check
// cannot continue; mistakes in fields are added to problems.
type explainer struct {
	dec      *json.Decoder
	data     []byte
	problems ares.Problems
}

func (x *explainer) document(d protoreflect.MessageDescriptor) error {
	tok, err := x.next()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		example := "{}" // of a message without fields
		if d.Fields().Len() > 0 {
			example = "{" + strconv.Quote(string(d.Fields().Get(0).Name())) + ": …}"
		}
		return ares.Errorf(ares.Invalid, "expected a JSON object such as %s, but found %s", example, kindOf(tok))
	}
	if err := x.message(d, "", 1); err != nil {
		return err
	}
	if _, err := x.dec.Token(); !errors.Is(err, io.EOF) {
		return ares.Errorf(ares.Invalid, "there is extra data after the end of the JSON object: send exactly one object")
	}
	return nil
}

func (x *explainer) next() (json.Token, error) {
	tok, err := x.dec.Token()
	if err == nil {
		return tok, nil
	}
	at := int(x.dec.InputOffset())
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = int(syntax.Offset)
	}
	before := x.data[:min(max(at, 0), len(x.data))]
	line := bytes.Count(before, []byte("\n")) + 1
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ares.Errorf(ares.Invalid, "the JSON ends too early, at line %d: a bracket or quote is not closed", line)
	}
	return nil, ares.Errorf(ares.Invalid, "the JSON is invalid at line %d: %s", line, err)
}

func (x *explainer) wrong(path, format string, args ...any) error {
	if path == "" {
		path = "body"
	}
	x.problems.Add(ares.Clip(path), format, args...)
	if len(x.problems) >= maxJSONProblems {
		return errEnough
	}
	return nil
}

// The method `message` checks an object whose opening brace has already been read.
func (x *explainer) message(d protoreflect.MessageDescriptor, path string, depth int) error {
	if depth > maxJSONDepth {
		return ares.Errorf(ares.Invalid, "the JSON nests deeper than %d levels", maxJSONDepth).At(ares.Clip(path))
	}
	seen := map[string]bool{}
	for x.dec.More() {
		tok, err := x.next()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return ares.Errorf(ares.Invalid, "the JSON is invalid: the name of a field must be a string")
		}
		at := join(path, key)
		if seen[key] {
			if err := x.wrong(at, "appears twice: remove one"); err != nil {
				return err
			}
		}
		seen[key] = true
		fd := d.Fields().ByName(protoreflect.Name(key))
		if fd == nil {
			if err := x.unknown(d, key, at); err != nil {
				return err
			}
			if err := x.skipNext(depth); err != nil {
				return err
			}
			continue
		}
		if err := x.field(fd, at, depth); err != nil {
			return err
		}
	}
	_, err := x.next() // the closing brace
	return err
}

func (x *explainer) unknown(d protoreflect.MessageDescriptor, key, at string) error {
	if near := nearest(d, key); near != "" {
		return x.wrong(at, "there is no such field: did you mean %s?", near)
	}
	return x.wrong(at, "there is no such field: remove it")
}

func (x *explainer) field(fd protoreflect.FieldDescriptor, at string, depth int) error {
	tok, err := x.next()
	if err != nil || tok == nil { // null means not said
		return err
	}
	switch {
	case fd.IsMap():
		if tok != json.Delim('{') {
			return x.mismatch(fd, at, tok, depth)
		}
		return x.mapping(fd.MapValue(), at, depth+1)
	case fd.IsList():
		if tok != json.Delim('[') {
			return x.mismatch(fd, at, tok, depth)
		}
		for i := 0; x.dec.More(); i++ {
			elem, err := x.next()
			if err != nil {
				return err
			}
			if err := x.value(fd, fmt.Sprintf("%s[%d]", at, i), elem, depth+1); err != nil {
				return err
			}
		}
		_, err := x.next()
		return err
	}
	return x.value(fd, at, tok, depth)
}

func (x *explainer) mapping(fd protoreflect.FieldDescriptor, path string, depth int) error {
	seen := map[string]bool{}
	for x.dec.More() {
		tok, err := x.next()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		at := join(path, key)
		if seen[key] {
			if err = x.wrong(at, "appears twice: remove one"); err != nil {
				return err
			}
		}
		seen[key] = true
		elem, err := x.next()
		if err != nil {
			return err
		}
		if err := x.value(fd, at, elem, depth); err != nil {
			return err
		}
	}
	_, err := x.next()
	return err
}

// The method `value` checks one value that is neither a list nor a map.
func (x *explainer) value(fd protoreflect.FieldDescriptor, at string, tok json.Token, depth int) error {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return x.submessage(fd, at, tok, depth)
	case protoreflect.StringKind:
		if _, ok := tok.(string); ok {
			return nil
		}
	case protoreflect.BoolKind:
		if _, ok := tok.(bool); ok {
			return nil
		}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if n, ok := tok.(json.Number); ok {
			if _, err := n.Float64(); err != nil {
				return x.wrong(at, "%s is beyond what a number can hold", ares.Clip(n.String()))
			}
			return nil
		}
	case protoreflect.BytesKind, protoreflect.EnumKind:
		return x.skip(tok, depth) // not in any request; protojson judges
	default:
		if n, ok := tok.(json.Number); ok {
			return x.integer(fd, at, n)
		}
	}
	return x.mismatch(fd, at, tok, depth)
}

func (x *explainer) submessage(fd protoreflect.FieldDescriptor, at string, tok json.Token, depth int) error {
	if fd.Message().FullName() == "google.protobuf.Timestamp" {
		s, ok := tok.(string)
		if !ok {
			return x.mismatch(fd, at, tok, depth)
		}
		if _, err := time.Parse(time.RFC3339Nano, s); err != nil {
			return x.wrong(at, "want a time such as \"2026-01-31T18:00:00Z\", got %s", strconv.Quote(ares.Clip(s)))
		}
		return nil
	}
	if tok != json.Delim('{') {
		return x.mismatch(fd, at, tok, depth)
	}
	return x.message(fd.Message(), at, depth+1)
}

func (x *explainer) integer(fd protoreflect.FieldDescriptor, at string, n json.Number) error {
	lo, hi := bounds(fd.Kind())
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil && big.NewInt(i).Cmp(lo) >= 0 && big.NewInt(i).Cmp(hi) <= 0 {
		return nil
	}
	f, err := n.Float64()
	switch {
	case err == nil && f != math.Trunc(f):
		return x.wrong(at, "want a whole number, got %s", ares.Clip(n.String()))
	case err != nil, f < float(lo), f > float(hi):
		return x.wrong(at, "%s is out of range: want a whole number from %s to %s", ares.Clip(n.String()), lo, hi)
	}
	return nil
}

func bounds(k protoreflect.Kind) (lo, hi *big.Int) {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return big.NewInt(math.MinInt32), big.NewInt(math.MaxInt32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return big.NewInt(0), big.NewInt(math.MaxUint32)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return big.NewInt(0), new(big.Int).SetUint64(math.MaxUint64)
	default:
		return big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	}
}

func float(i *big.Int) float64 {
	f, _ := new(big.Float).SetInt(i).Float64()
	return f
}

// The method `mismatch` reports a value of the wrong type and skips it.
func (x *explainer) mismatch(fd protoreflect.FieldDescriptor, at string, tok json.Token, depth int) error {
	want := wanted(fd)
	if strings.HasSuffix(at, "]") && fd.IsList() || fd.ContainingMessage().IsMapEntry() {
		want = wantedOne(fd)
	}
	if err := x.wrong(at, "want %s, got %s", want, kindOf(tok)); err != nil {
		return err
	}
	return x.skip(tok, depth)
}

func (x *explainer) skipNext(depth int) error {
	tok, err := x.next()
	if err != nil {
		return err
	}
	return x.skip(tok, depth)
}

// The method `skip` skips the rest of a value whose first token has already been read.
func (x *explainer) skip(tok json.Token, depth int) error {
	if tok != json.Delim('{') && tok != json.Delim('[') {
		return nil
	}
	for open := 1; open > 0; {
		t, err := x.next()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
		if depth+open > maxJSONDepth {
			return ares.Errorf(ares.Invalid, "the JSON nests deeper than %d levels", maxJSONDepth)
		}
	}
	return nil
}
