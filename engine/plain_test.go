package engine

import (
	"reflect"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// Whatever field of a job changes, it gets the shape that its key spells out,
// also where that is found without the key.
func TestShapeIsFoundByEveryField(t *testing.T) {
	s := New()
	yes, four := true, 4
	base := ares.Spec{Tenant: "t", Members: 4, GPUs: 2, Gang: &yes}
	try := func(name string, spec ares.Spec) {
		t.Helper()
		job := &ares.Job{Spec: spec, ID: "j"}
		s.tenant(spec.Tenant)
		for range 2 { // made, and found
			if got, want := s.shaped(job).key, s.shapeOf(job).key; got != want {
				t.Errorf("with another %s the shape is\n%s, want\n%s", name, got, want)
			}
		}
	}
	var vary func(name string, v reflect.Value, spec *ares.Spec)
	vary = func(name string, v reflect.Value, spec *ares.Spec) {
		before := reflect.ValueOf(v.Interface())
		switch v.Kind() {
		case reflect.String:
			v.SetString("gpu")
		case reflect.Int:
			v.SetInt(3)
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"a=b"}))
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Pointer:
			if v.Type().Elem().Kind() != reflect.Int {
				return
			}
			v.Set(reflect.ValueOf(&four))
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					vary(name+"."+v.Type().Field(i).Name, v.Field(i), spec)
				}
			}
			return
		default:
			return
		}
		try(name, *spec)
		v.Set(before)
	}
	try("nothing", base)
	vary("Spec", reflect.ValueOf(&base).Elem(), &base)
	try("nothing", base)
	if len(s.shapes.plain) < 15 {
		t.Errorf("only %d shapes can be found without their keys", len(s.shapes.plain))
	}
}

// A shape that nobody has any more is not found.
func TestPlainShapeIsForgotten(t *testing.T) {
	s := New()
	job := &ares.Job{Spec: ares.Spec{Tenant: "t", GPUs: 1}, ID: "j"}
	other := *job
	other.Members = 1 // the same, said
	s.tenant("t")
	a, b := s.shaped(job), s.shaped(&other)
	if a != b || len(s.shapes.plain) != 2 {
		t.Fatalf("%d ways to the shape, %p and %p", len(s.shapes.plain), a, b)
	}
	s.shapes.release(a)
	s.shapes.release(b)
	if len(s.shapes.plain)+len(s.shapes.byKey) != 0 {
		t.Errorf("%d ways to shapes are left", len(s.shapes.plain))
	}
}
