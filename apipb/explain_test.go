package apipb_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

func TestExplainJSON(t *testing.T) {
	deep := strings.Repeat(`{"x":`, 50) + "1" + strings.Repeat("}", 50)
	for _, c := range []struct{ body, field, want string }{
		{`{"command": "python train.py"}`, "command", `command: want a list of strings such as ["python", "train.py"], got a string`},
		{`{"command": ["a", 7]}`, "command[1]", `command[1]: want a string, got the number 7`},
		{`{"command": ["a", null]}`, "command[1]", `command[1]: want a string, got null`},
		{`{"gpu_count": "4"}`, "gpu_count", `gpu_count: want a whole number, got a string`},
		{`{"gpu_count": 1.5}`, "gpu_count", `gpu_count: want a whole number, got 1.5`},
		{`{"gpu_count": 3000000000}`, "gpu_count", `gpu_count: 3000000000 is out of range: want a whole number from -2147483648 to 2147483647`},
		{`{"gpu_count": 1e400}`, "gpu_count", `gpu_count: 1e400 is out of range: want a whole number from -2147483648 to 2147483647`},
		{`{"gpu_count": {"a": [1]}, "name": "x"}`, "gpu_count", `gpu_count: want a whole number, got an object`},
		{`{"gpus": 2}`, "gpus", `gpus: there is no such field: did you mean gpu_count?`},
		{`{"gpuCount": 2}`, "gpuCount", `gpuCount: there is no such field: did you mean gpu_count?`},
		{`{"tme": "4h"}`, "tme", `tme: there is no such field: did you mean max_runtime_minutes?`},
		{`{"fame": "a"}`, "fame", `fame: there is no such field: did you mean name?`},
		{`{"xaze": "a"}`, "xaze", `xaze: there is no such field: remove it`},
		{`{"comand": ["a"]}`, "comand", `comand: there is no such field: did you mean command?`},
		{`{"max_retries": 2}`, "max_retries", `max_retries: there is no such field: did you mean retry.max_retries?`},
		{`{"shape": {"deep": [{}]}}`, "shape", `shape: there is no such field: remove it`},
		{`{"name": "a", "name": "b"}`, "name", `name: appears twice: remove one`},
		{`{"environment": {"A": 1}}`, "environment.A", `environment.A: want a string, got the number 1`},
		{`{"environment": {"A": "1", "A": "2"}}`, "environment.A", `environment.A: appears twice: remove one`},
		{`{"environment": ["A=1"]}`, "environment", `environment: want an object of strings such as {"NAME": "value"}, got a list`},
		{`{"placement": "rack"}`, "placement", `placement: want an object, got a string`},
		{`{"placement": {"strategi": "x"}}`, "placement.strategi", `placement.strategi: there is no such field: did you mean strategy?`},
		{`{"placement": {"node_requirements": "gpu.memory>=80G"}}`, "placement.node_requirements", `placement.node_requirements: want a list of objects such as [{"key": "gpu.memory", "operator": ">=", "values": ["80G"]}], got a string`},
		{`{"placement": {"node_requirements": [{"key": "a", "values": "b"}]}}`, "placement.node_requirements[0].values", `placement.node_requirements[0].values: want a list of strings such as ["80G"], got a string`},
		{`{"placement": {"node_requirements": [{"key": "gen", "operator": ">=", "values": [3]}]}}`, "placement.node_requirements[0].values[0]", `placement.node_requirements[0].values[0]: want a string, got the number 3`},
		{`{"retry": {"multiplier": "2"}}`, "retry.multiplier", `retry.multiplier: want a number, got a string`},
		{`{"deadline": "tomorrow"}`, "deadline", `deadline: want a time such as "2026-01-31T18:00:00Z", got "tomorrow"`},
		{`{"deadline": 5}`, "deadline", `deadline: want a time such as "2026-01-31T18:00:00Z", got the number 5`},
		{`{"gang_scheduling": "yes"}`, "gang_scheduling", `gang_scheduling: want true or false, got a string`},
		{`{"gpus": 2, "command": "x"}`, "gpus", `gpus: there is no such field: did you mean gpu_count?; command: want a list of strings such as ["python", "train.py"], got a string`},
		{``, "", `the body is empty: send a JSON object`},
		{`[]`, "", `expected a JSON object such as {"request_id": …}, but found a list`},
		{"{\n \"name\": }", "", `the JSON is invalid at line 2: invalid character '}' looking for beginning of value`},
		{`{"name": "a"`, "", `the JSON ends too early, at line 1: a bracket or quote is not closed`},
		{`{} {}`, "", `there is extra data after the end of the JSON object: send exactly one object`},
		{"{\"name\": \"\xff\"}", "", `the body is not valid UTF-8 at byte 10: save it as UTF-8`},
		{`{"x": ` + deep + `}`, "", `the JSON nests deeper than 32 levels`},
	} {
		err := apipb.ExplainJSON([]byte(c.body), &apipb.JobSpec{})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.body, err, c.want)
			continue
		}
		e, ok := errors.AsType[*ares.Error](err)
		if !ok || e.Code != ares.Invalid || e.Field != c.field {
			t.Errorf("%s: code %q field %q, want field %q", c.body, e.Code, e.Field, c.field)
		}
	}
}

func TestExplainNamesTheElement(t *testing.T) {
	err := apipb.ExplainJSON([]byte(`{"jobs": [{"name": "a"}, {"command": "x"}]}`), &apipb.SubmitJobsRequest{})
	if e, _ := errors.AsType[*ares.Error](err); e == nil || e.Field != "jobs[1].command" {
		t.Errorf("got %v", err)
	}
	many := `{` + strings.Repeat(`"x":1,`, 5000) + `"y":2}`
	if err := apipb.ExplainJSON([]byte(many), &apipb.JobSpec{}); err == nil || len(err.Error()) > 2000 {
		t.Errorf("a body with 5,000 mistakes gave %d bytes", len(err.Error()))
	}
}

func TestUnmarshalJSON(t *testing.T) {
	var got apipb.JobSpec
	body := `{"name": "a", "queue": null, "gpu_count": 2, "priority": 1e3, "command": ["x"], "environment": {"A": "b"},
		"placement": {"regions": ["eu"]}, "deadline": "2026-01-31T18:00:00Z", "retry": {"max_retries": 0}}`
	if err := apipb.UnmarshalJSON([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.GetGpuCount() != 2 || got.GetPriority() != 1000 || got.GetDeadline().GetSeconds() != 1769882400 || got.GetRetry().MaxRetries == nil {
		t.Errorf("got %v", &got)
	}
}

func FuzzUnmarshalJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"command":["a"],"gpu_count":1}`, `{"placement":{"regions":[null]}}`, `{"environment":{"a":{}}}`,
		`{"deadline":"2026-01-31T18:00:00Z"}`, `{"deadline":"0000-01-01T00:00:00Z"}`, `{"name":"\ud800"}`, `{"priority":1e9999999}`, `[[[[`, `{"a":{"b":{"c":`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var spec apipb.JobSpec
		err := apipb.UnmarshalJSON(body, &spec)
		if err != nil {
			if ares.CodeOf(err) != ares.Invalid || err.Error() == "" || !utf8.ValidString(err.Error()) || len(err.Error()) > 4096 {
				t.Fatalf("bad refusal of %q: %v", body, err)
			}
			return
		}
		if _, err := proto.Marshal(&spec); err != nil {
			t.Fatalf("accepted %q, but it does not marshal: %v", body, err)
		}
	})
}
