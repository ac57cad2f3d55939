package api

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
)

// TestPatch checks that a PATCH without a mask in its query changes exactly the
// fields in its body. The value null must remove a limit.
func TestPatch(t *testing.T) {
	h := newHouse(t)
	const vision, night = "/api/v1/tenants/vision", "/api/v1/tenants/vision/queues/night"
	quotas := []any{map[string]any{"nominal_gpus": 4}}
	a := h.do("POST", "/api/v1/tenants", map[string]any{"id": "vision", "max_gpus": 4, "priority_tier": "normal", "quotas": quotas})
	if _, limited := a.json["max_cpu_cores"]; a.code != 201 || limited || a.json["max_pending_jobs"] != 100_000.0 {
		t.Fatalf("create answered %d %s", a.code, a.body)
	}
	if a = h.do("POST", "/api/v1/queues", map[string]any{"tenant_id": "vision", "name": "night", "max_gpus": 2, "weight": 3}); a.code != 201 {
		t.Fatal(a.body)
	}
	for _, c := range []struct {
		path, body string
		want       map[string]any // nil if the field must be absent
	}{
		{vision, `{"max_cpu_cores": 8}`, map[string]any{"max_gpus": 4.0, "max_cpu_cores": 8.0, "priority_tier": "normal"}},
		{vision + "?update_mask=name", `{"max_cpu_cores": 9, "name": "Vision"}`, map[string]any{"name": "Vision", "max_cpu_cores": 8.0}},
		{vision, `{"max_gpus": null, "max_pending_jobs": null, "quotas": []}`, map[string]any{"max_gpus": nil, "max_pending_jobs": nil, "quotas": []any{}, "max_cpu_cores": 8.0}},
		{vision + "?update_mask=priority_tier,max_cpu_cores", `{}`, map[string]any{"priority_tier": nil, "max_cpu_cores": nil, "name": "Vision"}},
		{vision, `{}`, map[string]any{"name": "Vision"}},
		{night, `{"max_gpus": null}`, map[string]any{"max_gpus": nil, "weight": 3.0}},
		{night, `{"weight": null, "max_gpus": 1}`, map[string]any{"max_gpus": 1.0, "weight": 1.0}},
	} {
		a := h.do("PATCH", c.path, c.body)
		for name, want := range c.want {
			if a.code != 200 || fmt.Sprint(a.json[name]) != fmt.Sprint(want) {
				t.Errorf("PATCH %s %s answered %d %s, want %s to be %v", c.path, c.body, a.code, a.body, name, want)
			}
		}
	}
	h.refused(h.do("PATCH", vision+"?update_mask=max_gpu", `{"max_gpus": 1}`), 400, ares.Invalid, `"field":"update_mask"`, `\"max_gpu\"`)
	h.refused(h.do("PATCH", night+"?update_mask=quotas.gpu_model", `{}`), 400, ares.Invalid, `"field":"update_mask"`, `quotas.gpu_model`)
	h.refused(h.do("PATCH", vision, `{"max_gpus": -1}`), 400, ares.Invalid, `"field":"max_gpus"`)
	h.refused(h.do("PATCH", vision, `{"max_gpus": "x"}`), 400, ares.Invalid, `"field":"max_gpus"`)
}

// TestMasked checks that an update without a mask changes exactly the fields
// that its request contains.
func TestMasked(t *testing.T) {
	m := &apipb.Tenant{Name: "a", MaxGpus: new(int32(3))}
	part, reset, err := service.Masked(m, nil)
	if err != nil || part != m || reset != nil {
		t.Errorf("got %v, %v, %v", part, reset, err)
	}
	part, reset, err = service.Masked(m, &fieldmaskpb.FieldMask{Paths: []string{"max_gpus", "quotas"}})
	if err != nil || part.GetName() != "" || part.GetMaxGpus() != 3 || len(reset) != 1 || reset[0] != "quotas" || m.GetName() != "a" {
		t.Errorf("got %v, %v, %v", part, reset, err)
	}
}
