package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
)

// Config of a server. Every key can be given in the YAML file, and as an
// environment variable: ARES_ and the key in capitals, such as ARES_HTTP_ADDR
// or ARES_ETCD_ENDPOINTS. It is read once, at the start.
type Config struct {
	// DataDir holds the embedded store, tokens and journals. Default: the
	// user's data directory.
	DataDir string `yaml:"data_dir"`
	// HTTPAddr serves REST and events. Default 127.0.0.1:8080.
	HTTPAddr string `yaml:"http_addr"`
	// GRPCAddr serves gRPC for clients and agents. Default 127.0.0.1:9090.
	GRPCAddr string `yaml:"grpc_addr"`
	// MetricsAddr serves /metrics. Default 127.0.0.1:9091.
	MetricsAddr string `yaml:"metrics_addr"`
	// AdvertiseAddr is where other servers reach this one's gRPC. Default GRPCAddr.
	AdvertiseAddr string `yaml:"advertise_addr"`
	// Hosts are the names this server is reached by, beside loopback ones.
	Hosts []string `yaml:"hosts"`

	Etcd      EtcdConfig      `yaml:"etcd"`
	TLS       TLSConfig       `yaml:"tls"`
	Scheduler SchedulerConfig `yaml:"scheduler"`
	Sessions  SessionsConfig  `yaml:"sessions"`
	Jobs      JobsConfig      `yaml:"jobs"`
	Log       LogConfig       `yaml:"log"`
}

// EtcdConfig names an external etcd; without endpoints one is embedded.
type EtcdConfig struct {
	// Endpoints such as https://etcd-1:2379. Also ETCD_ENDPOINTS.
	Endpoints []string `yaml:"endpoints"`
	CAFile    string   `yaml:"ca_file"`
	CertFile  string   `yaml:"cert_file"`
	KeyFile   string   `yaml:"key_file"`
	Username  string   `yaml:"username"`
	Password  string   `yaml:"password"`
	// TimeoutSeconds bounds one operation of the store. Default 5, 1 to 60.
	TimeoutSeconds int `yaml:"timeout_seconds"`
}

// TLSConfig secures every listener. It is required beyond loopback.
type TLSConfig struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// CAFile verifies other servers. Default: the system's.
	CAFile string `yaml:"ca_file"`
}

// SchedulerConfig is about decisions.
type SchedulerConfig struct {
	// SchedulingIntervalMS is the longest rest between two decisions when
	// nothing happens. Events wake the loop at once. Default 1000, 10 to 60000.
	SchedulingIntervalMS int `yaml:"scheduling_interval_ms"`
	// MaxQueueSize bounds the jobs that wait. Default 1000000.
	MaxQueueSize int `yaml:"max_queue_size"`
	// EnableGangScheduling allows jobs of several members. Default true.
	EnableGangScheduling bool `yaml:"enable_gang_scheduling"`
	// LeaderTTLSeconds is how long a silent leader keeps its place. Default 5, 1 to 60.
	LeaderTTLSeconds int `yaml:"leader_ttl_seconds"`
}

// SessionsConfig is about nodes that fall silent.
type SessionsConfig struct {
	// TTLSeconds is how long a silent node keeps its session, and the least
	// lost_after_seconds a job may ask for. Default 20, 2 to 300.
	TTLSeconds int `yaml:"ttl_seconds"`
	// BrakePercent stops the reassignment of jobs when more of the nodes than
	// this are lost together. Default 55; 100 never stops.
	BrakePercent int `yaml:"brake_percent"`
}

// JobsConfig is about finished jobs.
type JobsConfig struct {
	// ArchiveAfterMinutes is how long a finished job stays in the live store;
	// then it moves to the archive file. Default 1440, at least 1.
	ArchiveAfterMinutes int `yaml:"archive_after_minutes"`
	// RememberDays is how long after its job's end a request_id is remembered.
	// Default 7, at least 1.
	RememberDays int `yaml:"remember_days"`
}

// LogConfig is about the server's own log.
type LogConfig struct {
	// Level is debug, info, warn or error. Default info. Also LOG_LEVEL.
	Level string `yaml:"level"`
	// Format is text or json. Default text.
	Format string `yaml:"format"`
}

// Default is the configuration that is used where nothing else is said.
func Default() Config {
	return Config{
		DataDir: DefaultDataDir(), HTTPAddr: "127.0.0.1:8080", GRPCAddr: "127.0.0.1:9090", MetricsAddr: "127.0.0.1:9091",
		Etcd:      EtcdConfig{TimeoutSeconds: 5},
		Scheduler: SchedulerConfig{SchedulingIntervalMS: 1000, MaxQueueSize: 1_000_000, EnableGangScheduling: true, LeaderTTLSeconds: 5},
		Sessions:  SessionsConfig{TTLSeconds: 20, BrakePercent: 55},
		Jobs:      JobsConfig{ArchiveAfterMinutes: 1440, RememberDays: 7},
		Log:       LogConfig{Level: "info", Format: "text"},
	}
}

// DefaultDataDir is the user's own data directory for Ares.
func DefaultDataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "ares")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "ares")
	}
	return "/var/lib/ares"
}

// Load reads the defaults, then the file if a path is given, then the
// environment. Unknown keys are errors, all of them told at once.
func Load(path string, environ []string) (Config, error) {
	cfg := Default()
	if path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return cfg, fmt.Errorf("read configuration: %w", err)
		}
		if err := cfg.parse(data); err != nil {
			return cfg, ares.Errorf(ares.Invalid, "%s: %v", path, err)
		}
	}
	return cfg, cfg.environment(environ)
}

func (c *Config) parse(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// environment applies ARES_ variables. Those that are no keys of this
// configuration belong to other parts of Ares and are left alone.
func (c *Config) environment(environ []string) error {
	vars := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	for alias, name := range map[string]string{"ETCD_ENDPOINTS": "ARES_ETCD_ENDPOINTS", "LOG_LEVEL": "ARES_LOG_LEVEL"} {
		if _, set := vars[name]; !set && vars[alias] != "" {
			vars[name] = vars[alias]
		}
	}
	var problems ares.Problems
	setFromEnvironment(reflect.ValueOf(c).Elem(), "ARES", vars, &problems)
	c.Log.Level = strings.ToLower(c.Log.Level)
	return problems.Err()
}

func setFromEnvironment(v reflect.Value, prefix string, vars map[string]string, problems *ares.Problems) {
	for i := range v.NumField() {
		name := prefix + "_" + strings.ToUpper(v.Type().Field(i).Tag.Get("yaml"))
		field := v.Field(i)
		if field.Kind() == reflect.Struct {
			setFromEnvironment(field, name, vars, problems)
			continue
		}
		text, set := vars[name]
		if !set || text == "" {
			continue
		}
		if field.Kind() == reflect.Slice {
			text = "[" + text + "]"
		} else if field.Kind() == reflect.String {
			field.SetString(text)
			continue
		}
		if err := yaml.Unmarshal([]byte(text), field.Addr().Interface()); err != nil {
			problems.Add(name, "%q is not a %s", text, field.Kind())
		}
	}
}

// Check reports every mistake at once.
func (c *Config) Check() error {
	var p ares.Problems
	if c.DataDir == "" {
		p.Add("data_dir", "is empty: name a directory")
	}
	c.checkListeners(&p)
	for _, r := range []struct {
		key    string
		v      int
		lo, hi int
	}{
		{"etcd.timeout_seconds", c.Etcd.TimeoutSeconds, 1, 60},
		{"scheduler.scheduling_interval_ms", c.Scheduler.SchedulingIntervalMS, 10, 60_000},
		{"scheduler.max_queue_size", c.Scheduler.MaxQueueSize, 1, 100_000_000},
		{"scheduler.leader_ttl_seconds", c.Scheduler.LeaderTTLSeconds, 1, 60},
		{"sessions.ttl_seconds", c.Sessions.TTLSeconds, 2, 300},
		{"sessions.brake_percent", c.Sessions.BrakePercent, 1, 100},
		{"jobs.archive_after_minutes", c.Jobs.ArchiveAfterMinutes, 1, 60 * 24 * 366},
		{"jobs.remember_days", c.Jobs.RememberDays, 1, 3660},
	} {
		if r.v < r.lo || r.v > r.hi {
			p.Add(r.key, "must be between %d and %d, got %d", r.lo, r.hi, r.v)
		}
	}
	if _, err := logLevel(c.Log.Level); err != nil {
		p.Add("log.level", "%q is unknown: use debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		p.Add("log.format", "%q is unknown: use text or json", c.Log.Format)
	}
	return p.Err()
}

// checkListeners refuses to listen beyond loopback without TLS: the API of a
// scheduler runs code.
func (c *Config) checkListeners(p *ares.Problems) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		p.Add("tls", "give both cert_file and key_file, or neither")
	}
	for key, addr := range map[string]string{"http_addr": c.HTTPAddr, "grpc_addr": c.GRPCAddr, "metrics_addr": c.MetricsAddr} {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			p.Add(key, "%q is not an address: write it as 127.0.0.1:8080", addr)
			continue
		}
		if !isLoopback(host) && c.TLS.CertFile == "" {
			p.Add(key, "%s is not a loopback address: set tls.cert_file and tls.key_file, or listen on 127.0.0.1", addr)
		}
	}
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// YAML prints the configuration as a file that Load reads.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }

// SessionTTL as a duration.
func (c *Config) SessionTTL() time.Duration {
	return time.Duration(c.Sessions.TTLSeconds) * time.Second
}

// digest identifies a configuration in the record of decisions. It leaves out
// what is secret.
func (c Config) digest() string {
	c.Etcd.Password = ""
	data, err := c.YAML()
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
