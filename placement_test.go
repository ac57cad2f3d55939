package ares_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"unsafe"

	ares "github.com/ares-scheduler/ares"
)

// TestJobSize checks the size of a job in memory. Go adds a header of 8 bytes and rounds the sum up to a size class. The
// next class after 768 bytes is 896, which is 9 MB more for 100,000 pending jobs.
func TestJobSize(t *testing.T) {
	if size := unsafe.Sizeof(ares.Job{}) + 8; size > 768 {
		t.Errorf("a job takes %d bytes with its header, more than 768: keep fields that few jobs set behind a pointer", size)
	}
}

// TestEditPlacement checks that a change of one spec's placement does not change copies of the spec.
func TestEditPlacement(t *testing.T) {
	job := &ares.Job{Spec: ares.Spec{Constraints: &ares.Placement{RequiredLevel: "leaf", Affinity: []string{"app=db"}}}}
	for name, change := range map[string]func(ares.Spec) ares.Spec{
		"defaults": ares.Spec.WithDefaults,
		"a remedy": ares.Step{Kind: ares.StepRelax, Field: "placement.required_level"}.Changed,
		"an edit":  func(s ares.Spec) ares.Spec { s.EditPlacement().RequiredLevel = "node"; return s },
	} {
		changed := change(job.Spec)
		if p := job.Placement(); p.Strategy != "" || p.RequiredLevel != "leaf" {
			t.Errorf("%s changed the job's own placement: %+v", name, p)
		}
		if p := changed.Placement(); p.Strategy == "" && p.RequiredLevel == "leaf" || len(p.Affinity) != 1 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	var empty ares.Spec
	if p := empty.Placement(); !p.IsZero() || empty.Constraints != nil {
		t.Errorf("a spec without a placement has %+v", p)
	}
}

// TestPlacementIsZero sets each field of a placement in turn.
func TestPlacementIsZero(t *testing.T) {
	for i := range reflect.TypeFor[ares.Placement]().NumField() {
		var p ares.Placement
		switch f := reflect.ValueOf(&p).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		default:
			t.Fatalf("no sample for %s", f.Type())
		}
		if p.IsZero() {
			t.Errorf("a placement is zero with the field %s set", reflect.TypeFor[ares.Placement]().Field(i).Name)
		}
	}
}

// TestPlacementJSON checks that an empty placement is left out of the JSON form of a spec.
func TestPlacementJSON(t *testing.T) {
	for _, c := range []struct {
		placement *ares.Placement
		want      string
	}{
		{nil, `{}`},
		{&ares.Placement{}, `{}`},
		{&ares.Placement{Strategy: "balanced"}, `{"placement":{"strategy":"balanced"}}`},
		{&ares.Placement{Regions: []string{}}, `{"placement":{"regions":[]}}`},
	} {
		data, err := json.Marshal(ares.Spec{Constraints: c.placement})
		if err != nil || string(data) != c.want {
			t.Errorf("%+v is %s, want %s (%v)", c.placement, data, c.want, err)
		}
	}
}
