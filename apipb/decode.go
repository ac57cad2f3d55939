package apipb

import (
	"math"
	"strconv"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file reads ordinary request bodies in one pass. It translates the JSON to the binary form of the message, which the generated
// code reads quickly. ExplainJSON and protojson each take several times as long.
//
// The decoder accepts only bodies that ExplainJSON and protojson accept too, and it reads the same message from them. Whatever it
// does not know, it leaves to them: mistakes, values of rare types and unusual ways to write a value.

// maxQuickDepth limits the nesting that the decoder reads. It is lower than maxJSONDepth.
const maxQuickDepth = 16

// quickType is what the decoder knows about the type of a message.
type quickType struct {
	fields map[string]*quickField
	known  bool // whether the decoder can notice a field that appears twice
}

// quickField is what the decoder knows about a field.
type quickField struct {
	index  int // in the message, to notice a field that appears twice
	number protowire.Number
	kind   quickKind
	list   bool
	nested protoreflect.MessageDescriptor // of a message or a map
}

type quickKind uint8

// These are the kinds of values that the decoder reads.
const (
	quickOther quickKind = iota // left to protojson
	quickString
	quickBool
	quickInt32
	quickInt64
	quickDouble
	quickMessage
	quickMap // from strings to strings
)

var (
	quickTypes   sync.Map // of protoreflect.FullName to *quickType
	quickBuffers = sync.Pool{New: func() any { return new(quickDecoder) }}
)

func quickTypeOf(d protoreflect.MessageDescriptor) *quickType {
	if t, ok := quickTypes.Load(d.FullName()); ok {
		return t.(*quickType)
	}
	t := &quickType{fields: map[string]*quickField{}, known: d.Fields().Len() <= 128}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		t.fields[string(fd.Name())] = newQuickField(i, fd)
	}
	quickTypes.Store(d.FullName(), t)
	return t
}

func newQuickField(i int, fd protoreflect.FieldDescriptor) *quickField {
	f := &quickField{index: i, number: fd.Number(), list: fd.IsList()}
	if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() {
		return f // protojson checks that only one of its fields is set
	}
	switch fd.Kind() {
	case protoreflect.StringKind:
		f.kind = quickString
	case protoreflect.BoolKind:
		f.kind = quickBool
	case protoreflect.Int32Kind:
		f.kind = quickInt32
	case protoreflect.Int64Kind:
		f.kind = quickInt64
	case protoreflect.DoubleKind:
		f.kind = quickDouble
	case protoreflect.MessageKind:
		f.nested = fd.Message()
		switch {
		case fd.IsMap() && fd.MapKey().Kind() == protoreflect.StringKind && fd.MapValue().Kind() == protoreflect.StringKind:
			f.kind = quickMap
		case !fd.IsMap() && fd.Message().ParentFile().Package() != "google.protobuf": // those have a JSON form of their own
			f.kind = quickMessage
		}
	default: // left to protojson
	}
	return f
}

// quickDecoder translates one JSON object. The methods return false if the body is left to protojson.
type quickDecoder struct {
	data []byte
	at   int
	out  []byte // the message in the binary form
	text []byte // a string with escapes
}

// unmarshalQuickly reads a body into m and returns true, or returns false if the body is left to ExplainJSON and protojson. In that
// case m may have changed. The body must be valid UTF-8.
func unmarshalQuickly(data []byte, m proto.Message) bool {
	d := quickBuffers.Get().(*quickDecoder)
	defer d.release()
	d.data, d.at, d.out = data, 0, d.out[:0]
	if !d.message(m.ProtoReflect().Descriptor(), 1) {
		return false
	}
	if d.skipSpace(); d.at != len(data) {
		return false
	}
	return proto.Unmarshal(d.out, m) == nil
}

// release keeps the buffers of an ordinary request for the next one.
func (d *quickDecoder) release() {
	if d.data = nil; cap(d.out) <= 64<<10 && cap(d.text) <= 64<<10 {
		quickBuffers.Put(d)
	}
}

func (d *quickDecoder) skipSpace() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// The method `take` reads a byte after any space, and reports whether it is c. Otherwise the byte is not read.
func (d *quickDecoder) take(c byte) bool {
	d.skipSpace()
	if d.at < len(d.data) && d.data[d.at] == c {
		d.at++
		return true
	}
	return false
}

// The method `word` reads a literal such as true.
func (d *quickDecoder) word(w string) bool {
	d.skipSpace()
	if len(d.data)-d.at < len(w) || string(d.data[d.at:d.at+len(w)]) != w {
		return false
	}
	d.at += len(w)
	return true
}

// The method `message` reads an object.
func (d *quickDecoder) message(of protoreflect.MessageDescriptor, depth int) bool {
	t := quickTypeOf(of)
	if !t.known || depth > maxQuickDepth || !d.take('{') {
		return false
	}
	if d.take('}') {
		return true
	}
	var seen [2]uint64
	for {
		name, ok := d.string()
		if !ok || !d.take(':') {
			return false
		}
		f := t.fields[string(name)]
		if f == nil || seen[f.index/64]&(1<<(f.index%64)) != 0 {
			return false
		}
		seen[f.index/64] |= 1 << (f.index % 64)
		if !d.word("null") && !d.field(f, depth) { // null means not said
			return false
		}
		if d.take('}') {
			return true
		}
		if !d.take(',') {
			return false
		}
	}
}

func (d *quickDecoder) field(f *quickField, depth int) bool {
	switch {
	case f.kind == quickMap:
		return d.mapping(f)
	case !f.list:
		return d.value(f, depth)
	case !d.take('['):
		return false
	case d.take(']'):
		return true
	}
	for {
		if !d.value(f, depth+1) {
			return false
		}
		if d.take(']') {
			return true
		}
		if !d.take(',') {
			return false
		}
	}
}

// The method `value` reads one value that is neither a list nor a map.
func (d *quickDecoder) value(f *quickField, depth int) bool {
	switch f.kind {
	case quickString:
		s, ok := d.string()
		d.out = protowire.AppendTag(d.out, f.number, protowire.BytesType)
		d.out = protowire.AppendBytes(d.out, s)
		return ok
	case quickBool:
		yes := d.word("true")
		d.out = protowire.AppendTag(d.out, f.number, protowire.VarintType)
		d.out = protowire.AppendVarint(d.out, protowire.EncodeBool(yes))
		return yes || d.word("false")
	case quickInt32, quickInt64:
		n, ok := d.integer()
		d.out = protowire.AppendTag(d.out, f.number, protowire.VarintType)
		d.out = protowire.AppendVarint(d.out, uint64(n))
		return ok && (f.kind == quickInt64 || n >= math.MinInt32 && n <= math.MaxInt32)
	case quickDouble:
		n, ok := d.number()
		d.out = protowire.AppendTag(d.out, f.number, protowire.Fixed64Type)
		d.out = protowire.AppendFixed64(d.out, math.Float64bits(n))
		return ok
	case quickMessage:
		d.out = protowire.AppendTag(d.out, f.number, protowire.BytesType)
		begin := d.begin()
		return d.message(f.nested, depth+1) && d.end(begin)
	default:
		return false
	}
}

// The method `mapping` reads a map from strings to strings.
func (d *quickDecoder) mapping(f *quickField) bool {
	if !d.take('{') {
		return false
	}
	if d.take('}') {
		return true
	}
	seen := map[string]struct{}{}
	for n := 1; ; n++ {
		d.out = protowire.AppendTag(d.out, f.number, protowire.BytesType)
		begin := d.begin()
		key, ok := d.string()
		if !ok || !d.take(':') {
			return false
		}
		if seen[string(key)] = struct{}{}; len(seen) != n {
			return false // it appears twice
		}
		d.out = protowire.AppendTag(d.out, 1, protowire.BytesType)
		d.out = protowire.AppendBytes(d.out, key)
		value, ok := d.string()
		if !ok {
			return false
		}
		d.out = protowire.AppendTag(d.out, 2, protowire.BytesType)
		d.out = protowire.AppendBytes(d.out, value)
		if !d.end(begin) {
			return false
		}
		if d.take('}') {
			return true
		}
		if !d.take(',') {
			return false
		}
	}
}

// The method `begin` leaves space for the length of a message, which is not known yet. A length may have more bytes than it needs.
func (d *quickDecoder) begin() int {
	d.out = append(d.out, 0x80, 0x80, 0x80, 0)
	return len(d.out)
}

// The method `end` fills in the length of the message that began at `begin`.
func (d *quickDecoder) end(begin int) bool {
	n := len(d.out) - begin
	for i := begin - 4; i < begin; i++ {
		d.out[i] |= byte(n & 0x7f)
		n >>= 7
	}
	return n == 0
}

// The method `string` reads a string. The result is valid until the next call.
func (d *quickDecoder) string() (s []byte, ok bool) {
	if !d.take('"') {
		return nil, false
	}
	for i := d.at; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			s, d.at = d.data[d.at:i], i+1
			return s, true
		case c == '\\':
			return d.escaped(i)
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// The method `escaped` reads the rest of a string whose first escape is at i.
func (d *quickDecoder) escaped(i int) (s []byte, ok bool) {
	d.text = append(d.text[:0], d.data[d.at:i]...)
	for i < len(d.data) {
		c := d.data[i]
		switch {
		case c == '"':
			d.at = i + 1
			return d.text, true
		case c < ' ':
			return nil, false
		case c != '\\':
			d.text = append(d.text, c)
			i++
			continue
		case i+1 == len(d.data):
			return nil, false
		}
		if c = d.data[i+1]; c == 'u' {
			if i+6 > len(d.data) {
				return nil, false
			}
			r, err := strconv.ParseUint(string(d.data[i+2:i+6]), 16, 16)
			if err != nil || !utf8.ValidRune(rune(r)) { // half of a pair
				return nil, false
			}
			d.text = utf8.AppendRune(d.text, rune(r))
			i += 6
			continue
		}
		plain, known := escapes[c]
		if !known {
			return nil, false
		}
		d.text = append(d.text, plain)
		i += 2
	}
	return nil, false
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// The method `integer` reads a whole number of at most 18 digits without an exponent.
func (d *quickDecoder) integer() (n int64, ok bool) {
	sign := int64(1)
	if d.take('-') {
		sign = -1
	}
	begin := d.at
	for d.at < len(d.data) && d.data[d.at] >= '0' && d.data[d.at] <= '9' {
		n = 10*n + int64(d.data[d.at]-'0')
		d.at++
		if d.at-begin > 18 {
			return 0, false
		}
	}
	digits := d.data[begin:d.at]
	return sign * n, len(digits) > 0 && d.valueEnds() && (digits[0] != '0' || len(digits) == 1 && sign == 1)
}

// The method `number` reads a number in decimal digits, such as 0.5.
func (d *quickDecoder) number() (f float64, ok bool) {
	d.skipSpace()
	begin, points := d.at, 0
	for d.at < len(d.data) && (d.data[d.at] >= '0' && d.data[d.at] <= '9' || d.data[d.at] == '.') {
		if d.data[d.at] == '.' {
			points++
		}
		d.at++
	}
	digits := d.data[begin:d.at]
	if len(digits) == 0 || len(digits) > 32 || points > 1 || digits[0] == '.' || digits[len(digits)-1] == '.' || !d.valueEnds() ||
		digits[0] == '0' && len(digits) > 1 && digits[1] != '.' {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(digits), 64)
	return f, err == nil
}

// The method `valueEnds` reports whether the next byte can follow a number.
func (d *quickDecoder) valueEnds() bool {
	if d.at >= len(d.data) {
		return false
	}
	switch d.data[d.at] {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}
