package job

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// TestKeysThatBecomeOne checks that a job file is rejected if two of its YAML keys become the same
// string in JSON.
func TestKeysThatBecomeOne(t *testing.T) {
	for _, file := range []string{"environment: {1: a, 1.0: b}\n", "jobs: [{labels: {x: y, 1e1: a, 10: b}}]\n", "{null: a, <nil>: b}\n"} {
		if specs, err := parseJobs([]byte(file)); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%s is read as %v, %v", file, specs, err)
		}
	}
}

// FuzzJobFile reads arbitrary job files. An invalid file must give an error with a text and a code.
// Valid jobs must be unchanged after they are printed as JSON or YAML and read again.
func FuzzJobFile(f *testing.F) {
	for _, s := range []string{
		"name: a\ncommand: [x]\n", `{"command":["x"],"gpu_count":2}`, "jobs:\n- command: [a]\n- command: [b]\n", "command: [a]\n---\ncommand: [b]\n---\n", "", "---\n", "- a", "{", `{"jobs": 5}`, "jobs: []",
		"environment: {1: a, \"1\": b}\n", "environment: {1: a, 1.0: b, 1e0: c, 0x1: d}\n", "command: [!!binary eA==, 2026-01-31]\n", "deadline: 2026-01-31T18:00:00Z\n", "priority: .inf", "priority: .nan", "gpu_count: 1_000", "a: &a [*a]", "x: &x {y: z}\n<<: *x",
		"name: \"\\u202e\\x85\\0\"\n", "name: '\xff'", "command: ['yes', 'null', '1', '0x1', ' ', '', '- a', '#']\n", "labels: {? [a] : b}", "retry: {multiplier: 1e400}",
		`{"command":["\n\t","\n\t a"," \n","\t\nx","a\nb\n","\r\n","\u0085\n"]}`, `{"environment":{"\n\t":"\n\u2028","? ":"- "}}`,
		strings.Repeat("[", 200), "a: " + strings.Repeat("{b: ", 50),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		specs, err := parseJobs(data)
		if again, err2 := parseJobs(data); (err == nil) != (err2 == nil) || !sameSpecs(specs, again) {
			t.Fatalf("read twice, it is two different things: %v %v\n%v\n%v", err, err2, specs, again)
		}
		if err != nil {
			if ares.CodeOf(err) != ares.Invalid || strings.TrimSpace(err.Error()) == "" || !utf8.ValidString(err.Error()) || len(err.Error()) > 8<<10 {
				t.Fatalf("refused with %q", err)
			}
			return
		}
		plain, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&apipb.SubmitJobsRequest{Jobs: specs})
		if err != nil {
			t.Fatal(err)
		}
		var printed bytes.Buffer
		output.WriteYAML(&printed, plain)
		for _, text := range [][]byte{plain, printed.Bytes()} {
			if again, err := parseJobs(text); err != nil || !sameSpecs(specs, again) {
				t.Fatalf("%s\nis read as %v, not %v: %v", text, again, specs, err)
			}
		}
	})
}

func sameSpecs(a, b []*apipb.JobSpec) bool {
	return proto.Equal(&apipb.SubmitJobsRequest{Jobs: a}, &apipb.SubmitJobsRequest{Jobs: b})
}
