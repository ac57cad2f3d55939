package server

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
)

func TestConvert(t *testing.T) {
	old := `scheduler:
  scheduling_interval_ms: 1000
  max_queue_size: 10000
  enable_preemption: true
  enable_gang_scheduling: true
  enable_thermal_aware: true
  thermal_threshold: 75.0
  magic: 3
database:
  host: localhost
  port: 5433
  user: postgres
  password: "gpu123"
  database: gpu_scheduler
  sslmode: disable
api:
  http_port: 8080
  grpc_port: 9090
`
	out, notes, err := ConvertConfig([]byte(old), []string{"GPU_SCHEDULER_DATABASE_PASSWORD=p@ss", "GPU_SCHEDULER_API_HTTP_PORT=8081", "GPU_SCHEDULER_ODD=1", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	want := `# Converted by ares config convert.
scheduler:
  scheduling_interval_ms: 1000
  max_queue_size: 10000
  enable_preemption: true
  enable_gang_scheduling: true
  enable_thermal_aware: true
  thermal_threshold: 75
http_addr: 127.0.0.1:8081
grpc_addr: 127.0.0.1:9090
history:
  url: postgres://postgres@localhost:5433/gpu_scheduler?sslmode=disable
`
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	file := filepath.Join(t.TempDir(), "ares.yaml")
	if err = os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(file, nil)
	if err != nil || cfg.Check() != nil || cfg.HTTPAddr != "127.0.0.1:8081" {
		t.Errorf("Ares does not take its own conversion: %v", err)
	}
	told := strings.Join(notes, "\n")
	for _, want := range []string{
		"GPU_SCHEDULER_ODD: Ares has no such setting", "scheduler.magic: Ares has no such setting",
		"GPU_SCHEDULER_DATABASE_PASSWORD: left out of history.url, so that the password is in no file: give it to the server in PGPASSWORD",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("nothing is told of %s in\n%s", want, told)
		}
	}
	if strings.Contains(told, "p@ss") || strings.Contains(told, "gpu123") {
		t.Errorf("a password is told:\n%s", told)
	}
	if _, _, err := ConvertConfig([]byte("scheduler: {thermal_threshold: nan}"), nil); err == nil || !strings.Contains(err.Error(), "want a temperature") {
		t.Errorf("got %v", err)
	}
	if _, _, err := ConvertConfig([]byte("api: {http_port: many}"), nil); err == nil || err.Error() != `line 1: api.http_port: want a port from 1 to 65535, got "many"` {
		t.Errorf("got %v", err)
	}
}

// TestConvertingAFileOfAres checks that no key of Ares is called unknown, and that no such key is lost in silence.
func TestConvertingAFileOfAres(t *testing.T) {
	for _, file := range []string{"scheduler: {enable_preemption: true}\nhttp_addr: 127.0.0.1:8081", "\nscheduler: {max_preemptions: 3}"} {
		out, notes, err := ConvertConfig([]byte(file), nil)
		if err == nil || !strings.Contains(err.Error(), "line 2: ") || !strings.Contains(err.Error(), "is a key of Ares: the file has the form of Ares already, so use it as it is") {
			t.Errorf("%s became %s with %v and %v", file, out, notes, err)
		}
	}
	out, notes, err := ConvertConfig([]byte("api: {http_port: 8081}\ntls: {}\nscheduler: {max_preemptions: 3}"), nil)
	want := []string{"left out: tls: it is a key of Ares: add it to the result", "left out: scheduler.max_preemptions: it is a key of Ares: add it to the result"}
	if err != nil || !slices.Equal(notes, want) {
		t.Errorf("a file in both forms became %s with %q and %v", out, notes, err)
	}
}

// TestAddressesDiffer checks that two listeners with one address are found before the server starts.
func TestAddressesDiffer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"api: {http_port: 8080, grpc_port: 8080}":                          "grpc_addr: 127.0.0.1:8080 is the address of http_addr too: choose another port",
		"http_addr: 127.0.0.1:9091":                                        "metrics_addr: 127.0.0.1:9091 is the address of http_addr too: choose another port",
		"http_addr: 127.0.0.1:0\ngrpc_addr: 127.0.0.1:0\nmetrics_addr: :0": "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(file, nil)
		if err == nil {
			err = cfg.Check()
		}
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestNoticesCountTheirVariables checks the notices of one variable.
func TestNoticesCountTheirVariables(t *testing.T) {
	cfg, err := Load("", []string{"GPU_SCHEDULER_API_HTTP_PORT=8085"})
	if err != nil || !slices.Equal(cfg.Notices(), []string{"GPU_SCHEDULER_API_HTTP_PORT was read as: http_addr=127.0.0.1:8085"}) {
		t.Errorf("got %q and %v", cfg.Notices(), err)
	}
}

// gpuSchedulerFile is the configuration file of the gpu-scheduler's documentation.
const gpuSchedulerFile = `scheduler:
  scheduling_interval_ms: 1000      # Scheduling cycle interval
  max_queue_size: 10000              # Maximum queued jobs
  enable_preemption: true            # Allow preemption
  enable_gang_scheduling: true       # Support distributed jobs
  enable_thermal_aware: true         # Monitor GPU temperature
  thermal_threshold: 75.0            # Max GPU temp

database:
  host: localhost
  port: 5433                         # PostgreSQL port
  user: postgres
  password: "gpu123"                 # Password
  database: gpu_scheduler            # Database name
  sslmode: disable                   # SSL mode

api:
  http_port: 8080                    # REST API port
  grpc_port: 9090                    # gRPC port
`

// loadText loads a configuration file with the given content.
func loadText(t *testing.T, text string, environ ...string) (Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(file, environ)
	if err != nil {
		return cfg, err
	}
	return cfg, cfg.Check()
}

func TestLoadGPUScheduler(t *testing.T) {
	cfg, err := loadText(t, gpuSchedulerFile, "GPU_SCHEDULER_DATABASE_PASSWORD=p@ss/w:rd", "GPU_SCHEDULER_DATABASE_PORT=5434", "GPU_SCHEDULER_API_HTTP_PORT=8081",
		"GPU_SCHEDULER_SCHEDULER_MAX_QUEUE_SIZE=77", "GPU_SCHEDULER_ODD=1", "ARES_GRPC_ADDR=127.0.0.1:9999")
	if err != nil {
		t.Fatal(err)
	}
	if want := "postgres://postgres:p%40ss%2Fw%3Ard@localhost:5434/gpu_scheduler?sslmode=disable"; cfg.History.URL != want {
		t.Errorf("the history URL is %s, want %s", cfg.History.URL, want)
	}
	if cfg.HTTPAddr != "127.0.0.1:8081" || cfg.GRPCAddr != "127.0.0.1:9999" || cfg.Scheduler.MaxQueueSize != 77 || cfg.Scheduler.ThermalThreshold != 75 {
		t.Errorf("read as %s, %s, %+v", cfg.HTTPAddr, cfg.GRPCAddr, cfg.Scheduler)
	}
	said := cfg.Notices()
	if len(said) != 2 || !strings.Contains(said[0], "c.yaml has the form of the gpu-scheduler and was read as: scheduler.scheduling_interval_ms=1000, ") ||
		!strings.Contains(said[0], "http_addr=127.0.0.1:8081") || !strings.Contains(said[0], "history.url=postgres://postgres:xxxxx@localhost:5434/gpu_scheduler?sslmode=disable") ||
		!strings.Contains(said[0], "(GPU_SCHEDULER_API_HTTP_PORT, ") || said[1] != "GPU_SCHEDULER_ODD is ignored: Ares has no such setting" {
		t.Errorf("said %q", said)
	}
	if all := strings.Join(said, " "); strings.Contains(all, "p@ss") || strings.Contains(all, "p%40ss") || strings.Contains(all, "gpu123") {
		t.Errorf("the password is told: %s", all)
	}
}

// TestLoadVariablesOnly checks the gpu-scheduler's variables without a file in its form. A password alone must not make
// the server connect to a database, because it may be left in the shell from another program.
func TestLoadVariablesOnly(t *testing.T) {
	cfg, err := Load("", []string{"GPU_SCHEDULER_API_HTTP_PORT=8082", "GPU_SCHEDULER_DATABASE_PASSWORD=secret"})
	if err != nil || cfg.Check() != nil || cfg.HTTPAddr != "127.0.0.1:8082" || cfg.History.URL != "" {
		t.Fatalf("got %v, %s, %s", err, cfg.HTTPAddr, cfg.History.URL)
	}
	if all := strings.Join(cfg.Notices(), "\n"); !strings.Contains(all, "GPU_SCHEDULER_DATABASE_PASSWORD is ignored: no database is named") || strings.Contains(all, "secret") {
		t.Errorf("said %s", all)
	}
	if cfg, err = Load("", []string{"GPU_SCHEDULER_DATABASE_HOST=db", "GPU_SCHEDULER_DATABASE_PASSWORD=x"}); err != nil || cfg.History.URL != "postgres://postgres:x@db:5432/gpu_scheduler" {
		t.Errorf("got %v, %s", err, cfg.History.URL)
	}
	// Kubernetes sets these in each pod for a Service with the name gpu-scheduler-database.
	service := []string{"GPU_SCHEDULER_DATABASE_PORT=tcp://10.0.0.1:5432", "GPU_SCHEDULER_DATABASE_SERVICE_HOST=10.0.0.1", "GPU_SCHEDULER_DATABASE_PORT_5432_TCP=tcp://10.0.0.1:5432"}
	if cfg, err = Load("", append(service, "GPU_SCHEDULER_DATABASE_HOST=db")); err != nil || cfg.History.URL != "postgres://postgres@db:5432/gpu_scheduler" ||
		!strings.Contains(strings.Join(cfg.Notices(), "\n"), "GPU_SCHEDULER_DATABASE_PORT is ignored: Kubernetes sets it to tcp://10.0.0.1:5432 for a Service") {
		t.Errorf("%v, %s: %q", err, cfg.History.URL, cfg.Notices())
	}
	if cfg, err = loadText(t, "http_addr: 127.0.0.1:8070\n", "GPU_SCHEDULER_API_HTTP_PORT=8082"); err != nil || cfg.HTTPAddr != "127.0.0.1:8070" ||
		!strings.Contains(strings.Join(cfg.Notices(), ""), "GPU_SCHEDULER_API_HTTP_PORT: ignored, because ") {
		t.Errorf("got %v, %s, %q", err, cfg.HTTPAddr, cfg.Notices())
	}
	if cfg, err = loadText(t, "scheduler: {max_queue_size: 5}\n", "GPU_SCHEDULER_API_HTTP_PORT=8082"); err != nil || cfg.HTTPAddr != "127.0.0.1:8082" || cfg.Scheduler.MaxQueueSize != 5 {
		t.Errorf("got %v, %s", err, cfg.HTTPAddr)
	}
}

func TestLoadGPUSchedulerMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"api: {http_prt: 8080}", "line 1: api.http_prt: the gpu-scheduler has no such key; did you mean api.http_port?"},
		{"api: {http_port: 8080}\nmagic: 1", "line 2: magic: Ares has no such setting"},
		{"api: {http_port: many}", `line 1: api.http_port: want a port from 1 to 65535, got "many"`},
		{"api: {http_port: [1]}", "line 1: api.http_port: want one value, got a list"},
		{"api: 8080", `line 1: api: want keys of its own, such as http_port, got "8080"`},
		{"api: {http_port: 1}\nscheduler: {enable_preemption: perhaps}", `line 2: scheduler.enable_preemption: want true or false, got "perhaps"`},
		{"database: {sslmode: wild}", "line 1: database.sslmode: want one of disable, allow, prefer, require, verify-ca, verify-full"},
		{"api: {http_port: 1, http_port: 2}", "line 1: api.http_port: was already given in line 1"},
		{"api: {host: 0.0.0.0}", "line 1: api.host: Ares listens on 127.0.0.1"},
		{"http_addr: 127.0.0.1:1\ndatabase: {host: x}", "line 1: http_addr: the file mixes two forms: http_addr is a key of Ares, but database in line 2 is a section of the gpu-scheduler: convert the file with ares config convert"},
		{"database: {host: x}\nscheduler: {check_laws: true}", "line 2: scheduler.check_laws: the file mixes two forms: scheduler.check_laws is a key of Ares"},
	} {
		if _, err := loadText(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := loadText(t, "api: {http_port: 1}", "GPU_SCHEDULER_DATABASE_HOST=x", "GPU_SCHEDULER_DATABASE_PORT=x"); err == nil || !strings.Contains(err.Error(), `GPU_SCHEDULER_DATABASE_PORT: want a port`) {
		t.Errorf("got %v", err)
	}
}

// FuzzConvertConfig converts random configuration files and environment variables of the
// gpu-scheduler. FuzzConvertConfig checks that the result is a valid configuration of Ares and
// contains no secret.
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
		out, notes, err := ConvertConfig(file, []string{variable, gpuSchedulerPrefix + "DATABASE_PASSWORD=" + secret})
		if again, _, _ := ConvertConfig(file, []string{variable, gpuSchedulerPrefix + "DATABASE_PASSWORD=" + secret}); !bytes.Equal(out, again) {
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
		var cfg Config
		dec := yaml.NewDecoder(bytes.NewReader(out))
		dec.KnownFields(true)
		if err := dec.Decode(&cfg); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("Ares does not take its own conversion: %v\n%s", err, out)
		}
	})
}
