package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/server"
)

// FuzzConvertConfig converts any file and variable of the gpu-scheduler. What
// comes out is a configuration of Ares; secrets stay where they were.
func FuzzConvertConfig(f *testing.F) {
	for _, s := range []string{
		"scheduler: {scheduling_interval_ms: 1000, enable_gang_scheduling: true}\napi: {http_port: 8080}\n", "database: {password: x}\n", "api: {http_port: -1}", "scheduler: 5\n", "[]", "a: &a {b: *a}",
		"api: {http_port: 0x50, grpc_port: \"08080\", metrics_port: 1e3}", "scheduler: {max_queue_size: 99999999999}", "scheduler: {max_queue_size: 5}\nscheduler.max_queue_size: 4\n", "? {a: b}\n: c", "\xff", "api: {host: 0.0.0.0}\n---\nb: c",
	} {
		f.Add([]byte(s), "GPU_SCHEDULER_API_GRPC_PORT=9")
	}
	f.Add([]byte(""), "GPU_SCHEDULER_SCHEDULER_ENABLE_GANG_SCHEDULING=T")
	f.Fuzz(func(t *testing.T, file []byte, variable string) {
		const secret = "canary-5c1f0e"
		out, notes, err := convertConfig(file, []string{variable, oldPrefix + "DATABASE_PASSWORD=" + secret})
		if again, _, _ := convertConfig(file, []string{variable, oldPrefix + "DATABASE_PASSWORD=" + secret}); !bytes.Equal(out, again) {
			t.Fatalf("converted twice, it is\n%s\nand\n%s", out, again)
		}
		if err != nil {
			if ares.CodeOf(err) != ares.Invalid || err.Error() == "" || out != nil {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if told := string(out) + strings.Join(notes, "\n"); strings.Contains(told, secret) {
			t.Fatalf("a password is told:\n%s", told)
		}
		var cfg server.Config
		dec := yaml.NewDecoder(bytes.NewReader(out))
		dec.KnownFields(true)
		if err := dec.Decode(&cfg); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("Ares does not take its own conversion: %v\n%s", err, out)
		}
	})
}

// FuzzJobFile reads a file of jobs. Mistakes are told in a sentence with a
// code; jobs, printed as JSON or YAML, are read as the same jobs.
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
		writeYAML(&printed, plain)
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

// FuzzFlags gives any value to any flag of a submission. A value is refused
// by the flag's name, or it is what the job says.
func FuzzFlags(f *testing.F) {
	for i, s := range []string{"a", "", "-1", "2147483648", "0x10", "1e3", "A=b", "=b", "A", "A==", "true", "job-a,job-b", `"a`, "\xff", "\n", "--", "NaN", "gpu.memory>=80G,!spot", "a in (b"} {
		f.Add(uint8(i), s)
		f.Add(uint8(3*i+20), s)
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		var given specFlags
		flags := pflag.NewFlagSet("submit", pflag.ContinueOnError)
		given.add(flags)
		var names []string
		flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := names[int(which)%len(names)]
		if err := flags.Parse([]string{"--" + name + "=" + value}); err != nil {
			said := flagError(&cobra.Command{Use: "submit"}, err)
			if _, ok := errors.AsType[*usageError](said); !ok || !strings.Contains(said.Error(), name) {
				t.Fatalf("--%s=%q is refused with %v", name, value, said)
			}
			return
		}
		spec := &apipb.JobSpec{}
		if err := given.apply(flags, spec); err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), "--"+name) {
				t.Fatalf("--%s=%q is refused with %v", name, value, err)
			}
			return
		}
		for k, v := range spec.GetEnvironment() {
			if k == "" || strings.Contains(k, "=") || k+"="+v != value {
				t.Fatalf("--%s=%q sets %q to %q", name, value, k, v)
			}
		}
		for _, text := range textFlags {
			got := spec.ProtoReflect().Get(spec.ProtoReflect().Descriptor().Fields().ByTextName(text.field)).String()
			if text.flag == name && got != value || text.flag != name && got != "" {
				t.Fatalf("--%s=%q sets %s to %q", name, value, text.field, got)
			}
		}
	})
}

// FuzzPrint prints what a server, or what stands in its place, answered.
// Nothing of it makes the terminal obey, and what is no answer is an error.
func FuzzPrint(f *testing.F) {
	for _, s := range []string{
		`{"key":"/ares/jobs/a","revision":"5","value":{"job":{}}}` + "\n", `{"key":1}`, "<html>\n", "{}\n{\n", `{"value":1e999}`, `{"error":"no","code":"forbidden"}`, `{"error":"` + "\u202e\u009b31m" + `"}`, "", "\n", "null", `"a` + "\x7f\xff" + `"`, `{"` + "\u2066" + `":"\u001b[31m"}`, `[1.5,-0,1e-400]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []string{"table", "json", "yaml"} {
			var out bytes.Buffer
			a := &app{out: &out, err: io.Discard}
			if err := a.printRecords(bytes.NewReader(data), &readFlags{output: format}); err != nil && err.Error() == "" {
				t.Fatal("refused without a word")
			}
			for _, r := range out.String() {
				if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
					t.Fatalf("%q as %s let %q through: %q", data, format, r, out.String())
				}
			}
		}
		err := refusal(&http.Response{Status: "403 Forbidden", Body: io.NopCloser(bytes.NewReader(data))})
		if err == nil || err.Error() == "" || ares.CodeOf(err) == "" {
			t.Fatalf("%q is read as %v", data, err)
		}
	})
}
