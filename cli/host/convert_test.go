package host

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/server"
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
	out, notes, err := convertConfig([]byte(old), []string{"GPU_SCHEDULER_DATABASE_PASSWORD=p@ss", "GPU_SCHEDULER_API_HTTP_PORT=8081", "GPU_SCHEDULER_ODD=1", "HOME=/"})
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
`
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	file := filepath.Join(t.TempDir(), "ares.yaml")
	if err = os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := server.Load(file, nil)
	if err != nil || cfg.Check() != nil || cfg.HTTPAddr != "127.0.0.1:8081" {
		t.Errorf("Ares does not take its own conversion: %v", err)
	}
	told := strings.Join(notes, "\n")
	for _, want := range []string{
		"GPU_SCHEDULER_ODD: Ares has no such setting", "scheduler.magic: Ares has no such setting",
		"database.host, database.port, database.user, database.password, database.database, database.sslmode: Ares needs no database",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("nothing is told of %s in\n%s", want, told)
		}
	}
	if strings.Contains(told, "p@ss") || strings.Contains(told, "gpu123") {
		t.Errorf("a password is told:\n%s", told)
	}
	if _, _, err := convertConfig([]byte("scheduler: {thermal_threshold: nan}"), nil); err == nil || !strings.Contains(err.Error(), "want a temperature") {
		t.Errorf("got %v", err)
	}
	if _, _, err := convertConfig([]byte("api: {http_port: many}"), nil); err == nil || err.Error() != `api.http_port: want a port from 1 to 65535, got "many"` {
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
