package server

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	ares "github.com/ares-scheduler/ares"
)

// FuzzConfig parses a configuration file and one environment variable. Check must report every mistake in the configuration with a
// sentence. If Check accepts a configuration, its printed form must parse to the same value.
func FuzzConfig(f *testing.F) {
	def := Default()
	whole, err := def.YAML()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, "ARES_HTTP_ADDR=127.0.0.1:1")
	for _, s := range []string{
		"", "---\n", "null", "[]", "a: b", "http_addr: 8080\nhttp_addr: 1", "hosts: [a, {b: c}]", "hosts: a", "etcd: {endpoints: [x], timeout_seconds: 1.5}",
		"scheduler: {thermal_threshold: .nan, model_weights: {h100: 2, \"\": .inf}}", "scheduler: {thermal_threshold: 70.5, model_weights: {1: 0.5}}", "taints: [a=b:NoSchedule, ':']",
		"sessions: &s {ttl_seconds: 20}\njobs: *s", "a: &a [*a]", "log: {level: DEBUG, format: !!binary eA==}", "scheduler: {max_queue_size: 0x10, enable_gang_scheduling: y}",
		"tls: {cert_file: \"\\0\", key_file: '\xff'}", "a\n---\nb", "<<: {http_addr: x}", "? [a]\n: b", "jobs: {remember_days: 99999999999999999999}", "data_dir: \"\\u0085x\\t\"", "data_dir: \"\\n\\tx\"", "hosts: [\"\\n\\t\", \"a\\nb\"]",
	} {
		f.Add([]byte(s), "ARES_SESSIONS_TTL_SECONDS=7")
	}
	for _, s := range []string{"ETCD_ENDPOINTS=a,b", "ARES_HOSTS=a, 'b", "ARES_HOSTS=]", "LOG_LEVEL=Warn", "ARES_SCHEDULER_ENABLE_GANG_SCHEDULING=1", "ARES_JOBS_REMEMBER_DAYS=1e3", "ARES_X", "="} {
		f.Add([]byte("{}"), s)
	}
	f.Fuzz(func(t *testing.T, file []byte, variable string) {
		cfg := Default()
		if err := cfg.parse("", file, nil); err != nil {
			if err.Error() == "" || !utf8.ValidString(err.Error()) {
				t.Fatalf("refused with %q", err)
			}
			return
		}
		cfg.environment([]string{variable})
		err := cfg.Check()
		if len(cfg.wrong) > 0 && err == nil {
			t.Fatalf("%v was forgotten", cfg.wrong)
		}
		if err != nil {
			if ares.CodeOf(err) != ares.Invalid || strings.TrimSpace(err.Error()) == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if strings.ContainsFunc(fmt.Sprintf("%+v", cfg), unicode.IsControl) {
			return // the YAML encoder writes a tab after a newline, which no parser accepts
		}
		out, err := cfg.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again := Default()
		if err := again.parse("", out, nil); err != nil || len(again.wrong) > 0 || !reflect.DeepEqual(bare(again), bare(cfg)) {
			t.Fatalf("%+v\nis printed as\n%s\nwhich is read as\n%+v %v", cfg, out, again, err)
		}
		if second, err := again.YAML(); err != nil || !bytes.Equal(out, second) {
			t.Fatalf("printed as\n%s\nand then as\n%s", out, second)
		}
	})
}

// This function replaces empty lists and maps by nil, so that they are equal to missing ones.
func bare(c Config) Config {
	c.notices = nil
	if len(c.Scheduler.ModelWeights) == 0 {
		c.Scheduler.ModelWeights = nil
	}
	if len(c.Isolation.Tenants) == 0 {
		c.Isolation.Tenants = nil
	}
	if len(c.Auth.OIDC.Roles) == 0 {
		c.Auth.OIDC.Roles = nil
	}
	if len(c.Alerts.Channels) == 0 {
		c.Alerts.Channels = nil
	}
	for _, l := range []*[]string{&c.Hosts, &c.Taints, &c.Etcd.Endpoints, &c.Isolation.Groups, &c.Auth.OIDC.Algorithms} {
		if len(*l) == 0 {
			*l = nil
		}
	}
	return c
}
