package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/apipb"
)

// FuzzJobJSON fuzzes the job decoder. The decoder must either return a job or
// reject the input with an error text. A job must be unchanged after conversion
// to the internal types and back, and its JSON must decode to the same job.
func FuzzJobJSON(f *testing.F) {
	for _, s := range []string{
		`{"command": ["true"]}`, `{}`, `null`, `[]`, `{"command": "x"}`, `{"gpus": 1}`, `{"gpu_count": -1}`, `{"gpu_count": 1e999}`, "{\"name\": \"\xff\"}",
		`{"name":"Training Job","tenant_id":"t","priority":1000,"gpu_count":4,"command":["python"],"args":["--epochs","100"],"environment":{"A":"b"},"gang_scheduling":true}`,
		`{"command":["x"],"placement":{"node_requirements":[{"key":"gpu.memory","operator":">=","values":["80G"]},{"key":"spot","operator":"DoesNotExist"}]}}`,
		`{"command":["x"],"placement":{"strategy":"balanced","network_bandwidth":"100Gb","node_selector":{"a":"b"}},"retry":{"max_retries":0,"multiplier":2.5,"retry_on":["failure"]}}`,
		`{"command":["x"],"deadline":"2026-01-31T18:00:00.5Z","array":{"count":3},"checkpoint":{"enabled":true},"grace_seconds":0,"priority":0,"after":["job-aaaaaaaaaaaaaaaaaaaaaaaa"]}`,
		`{"command":["x"],"deadline":"0001-01-01T00:00:00Z","array":{},"retry":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m *apipb.JobSpec
		if err := rest.UnmarshalBody(data, &m); err != nil {
			if ares.CodeOf(err) != ares.Invalid || err.Error() == "" {
				t.Fatalf("a body was refused with %v", err)
			}
			_, body, _ := pipeline.ErrorAnswer(err)
			if !json.Valid(body) {
				t.Fatalf("the refusal is not JSON: %s", body)
			}
			return
		}
		spec := m.Spec()
		back := apipb.NewJobSpec(&spec).Spec()
		if !reflect.DeepEqual(plain(spec), plain(back)) {
			t.Fatalf("a spec changed on the way:\n%#v\n%#v", spec, back)
		}
		if ares.DigestOf(spec) != ares.DigestOf(back) {
			t.Fatalf("the digest changed on the way: %#v", spec)
		}
		if err := spec.Check(); err != nil {
			if ares.CodeOf(err) != ares.Invalid || strings.TrimSpace(err.Error()) == "" {
				t.Fatalf("a spec was refused with %v", err)
			}
			return
		}
		full := spec.WithDefaults()
		if err := full.Check(); err != nil {
			t.Fatalf("a good spec is bad with its defaults: %v", err)
		}
		out, err := rest.Compact(rest.Lean.Marshal(apipb.NewJobSpec(&full)))
		if err != nil {
			t.Fatalf("a job cannot be shown: %v", err)
		}
		again := &apipb.JobSpec{}
		if err := apipb.UnmarshalJSON(out, again); err != nil {
			t.Fatalf("what is shown cannot be submitted: %v\n%s", err, out)
		}
		if want := apipb.NewJobSpec(&full); !proto.Equal(normal(t, again), normal(t, want)) {
			t.Fatalf("what is shown is another job:\n%v\n%v", again, want)
		}
	})
}

// The function `plain` replaces empty lists and maps with nil, so that specs can be compared.
func plain(s ares.Spec) ares.Spec {
	p := s.EditPlacement()
	for _, l := range []*[]string{&s.Command, &s.Args, &s.After, &p.Tolerations, &p.Regions, &s.Retry.RetryOn} {
		if len(*l) == 0 {
			*l = nil
		}
	}
	if len(p.NodeRequirements) == 0 {
		p.NodeRequirements = nil
	}
	for _, m := range []*map[string]string{&s.Environment, &s.Labels, &p.NodeSelector} {
		if len(*m) == 0 {
			*m = nil
		}
	}
	if p.IsZero() {
		s.Constraints = nil
	}
	return s
}

// The function `normal` returns a message after one round trip through the wire format.
func normal(t *testing.T, m *apipb.JobSpec) *apipb.JobSpec {
	data, err := protojson.Marshal(m)
	must(t, err)
	out := &apipb.JobSpec{}
	must(t, protojson.Unmarshal(data, out))
	return out
}
