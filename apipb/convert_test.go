package apipb_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// TestNodeRequirementsTravel checks that node-selection conditions are
// unchanged after a round trip through protobuf and JSON. The JSON of a job
// without conditions must have no field for them.
func TestNodeRequirementsTravel(t *testing.T) {
	rs, err := ares.ParseNodeRequirements(`gpu.memory>=80G, gpu.model in (h100, "a b"), zone!=b, pool=, nvme, !spot`)
	if err != nil {
		t.Fatal(err)
	}
	want := ares.Spec{Command: []string{"x"}, Constraints: &ares.Placement{NodeRequirements: rs}}
	sent := apipb.NewJobSpec(&want)
	data, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var wire, text apipb.JobSpec
	if err = proto.Unmarshal(data, &wire); err != nil || !reflect.DeepEqual(wire.Spec(), want) {
		t.Errorf("protobuf: %+v, %v", wire.Spec(), err)
	}
	if data, err = (protojson.MarshalOptions{UseProtoNames: true}).Marshal(sent); err != nil {
		t.Fatal(err)
	}
	if err = apipb.UnmarshalJSON(data, &text); err != nil || !reflect.DeepEqual(text.Spec(), want) {
		t.Errorf("%s is read as %+v, %v", data, text.Spec(), err)
	}
	var stored ares.Spec
	if data, err = json.Marshal(want); err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(data, &stored); err != nil || !reflect.DeepEqual(stored, want) {
		t.Errorf("%s is read as %+v, %v", data, stored, err)
	}
	if !strings.Contains(string(data), `"node_requirements":[{"key":"gpu.memory","operator":"\u003e=","values":["80G"]},`) || !strings.Contains(string(data), `{"key":"spot","operator":"DoesNotExist"}`) {
		t.Errorf("the public form is %s", data)
	}

	none := ares.Spec{Command: []string{"x"}, Constraints: &ares.Placement{NodeRequirements: ares.NodeRequirements{}, Regions: []string{"eu"}}}
	if data, err = json.Marshal(ares.Spec{Constraints: &ares.Placement{Regions: []string{"eu"}}}); err != nil || string(data) != `{"placement":{"regions":["eu"]}}` {
		t.Errorf("%s, %v", data, err)
	}
	if got := apipb.NewJobSpec(&none).GetPlacement(); got.NodeRequirements != nil {
		t.Errorf("%v", got)
	}
	none.EditPlacement().Regions = nil
	if got := apipb.NewJobSpec(&none); got.Placement != nil || ares.DigestOf(none) != ares.DigestOf(ares.Spec{Command: []string{"x"}}) {
		t.Errorf("an empty list counts as something said: %v", got)
	}
}
