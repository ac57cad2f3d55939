package ares

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"
)

// TestDigestSeesEveryField sets each field of a spec in turn. If the digest ignored a field, a request with a different value in that
// field would count as a repetition.
func TestDigestSeesEveryField(t *testing.T) {
	seen := map[Digest]string{DigestOf(Spec{}): "nothing"}
	var walk func(path string, field reflect.Value, whole *Spec)
	walk = func(path string, field reflect.Value, whole *Spec) {
		if field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[time.Time]() {
			for i := range field.NumField() {
				walk(path+"."+field.Type().Field(i).Name, field.Field(i), whole)
			}
			return
		}
		if field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct { // without content, it means the same as nil
			field.Set(reflect.New(field.Type().Elem()))
			walk(path, field.Elem(), whole)
			field.SetZero()
			return
		}
		field.Set(sample(t, field.Type()))
		d := DigestOf(*whole)
		field.SetZero()
		if path == ".RequestID" || path == ".Tenant" {
			if d != DigestOf(Spec{}) {
				t.Errorf("%s makes the ID and must not count", path)
			}
			return
		}
		if other, dup := seen[d]; dup {
			t.Errorf("%s has the digest of %s", path, other)
		}
		seen[d] = path
	}
	var s Spec
	walk("", reflect.ValueOf(&s).Elem(), &s)
}

func sample(t *testing.T, typ reflect.Type) reflect.Value {
	switch typ.Kind() {
	case reflect.String:
		return reflect.ValueOf("x").Convert(typ)
	case reflect.Int, reflect.Int32:
		return reflect.ValueOf(7).Convert(typ)
	case reflect.Float64:
		return reflect.ValueOf(1.5)
	case reflect.Bool:
		return reflect.ValueOf(true)
	case reflect.Pointer:
		p := reflect.New(typ.Elem()) // a zero value that is set explicitly must change the digest too
		return p
	case reflect.Slice:
		return reflect.MakeSlice(typ, 1, 1) // an empty entry must change the digest too
	case reflect.Map:
		return reflect.ValueOf(map[string]string{"x": "y"})
	case reflect.Struct:
		return reflect.ValueOf(time.Unix(1, 0))
	default:
		t.Fatalf("no sample for %s", typ)
		return reflect.Value{}
	}
}

// TestDigestStays checks that the encoding of a submission never changes. If the encoding changed, every repeated
// request would be answered with a conflict after an upgrade.
func TestDigestStays(t *testing.T) {
	d := DigestOf(Spec{Name: "a", GPUs: 2, Command: []string{"x", "y"}, Environment: map[string]string{"B": "2", "A": "1"}, Priority: new(0)})
	if got, want := hex.EncodeToString(d[:]), "0156467b7c1b07b9e9dcbf9a287dccfba5"; got != want {
		t.Errorf("digest is %s, was %s", got, want)
	}
}
