package server

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/pki"
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
	// AdvertiseAddr is where agents and other servers reach this one's gRPC. Default
	// grpc_addr.
	AdvertiseAddr string `yaml:"advertise_addr"`
	// Hosts are the names this server is reached by, beside loopback ones.
	Hosts []string `yaml:"hosts"`
	// Taints are those of the node, where this file is an agent's or that of ares
	// up: each key=value:NoSchedule or key=value:PreferNoSchedule.
	Taints []string `yaml:"taints"`

	Etcd      EtcdConfig      `yaml:"etcd"`
	TLS       TLSConfig       `yaml:"tls"`
	Scheduler SchedulerConfig `yaml:"scheduler"`
	Sessions  SessionsConfig  `yaml:"sessions"`
	Jobs      JobsConfig      `yaml:"jobs"`
	Limits    LimitsConfig    `yaml:"limits"`
	Auth      AuthConfig      `yaml:"auth"`
	Recording RecordingConfig `yaml:"recording"`
	Isolation IsolationConfig `yaml:"isolation"`
	Audit     AuditConfig     `yaml:"audit"`
	Alerts    AlertsConfig    `yaml:"alerts"`
	Redis     RedisConfig     `yaml:"redis"`
	History   HistoryConfig   `yaml:"history"`
	Log       LogConfig       `yaml:"log"`
	PKI       PKIConfig       `yaml:"pki"`

	wrong ares.Problems // what Load could not take
}

// EtcdConfig names an external etcd; without endpoints one is embedded.
type EtcdConfig struct {
	// Endpoints are the addresses of its members, such as https://etcd-1:2379. Also
	// ETCD_ENDPOINTS.
	Endpoints []string `yaml:"endpoints"`
	// CAFile has the authorities that etcd's certificate is verified by. Default
	// those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile is the certificate to show to etcd, where it asks for one.
	CertFile string `yaml:"cert_file"`
	// KeyFile is its key.
	KeyFile string `yaml:"key_file"`
	// Username is who to log in as, where etcd has authentication.
	Username string `yaml:"username"`
	// Password is that user's password. ARES_ETCD_PASSWORD keeps it out of the file.
	Password string `yaml:"password"`
	// TimeoutSeconds bounds one operation of the store. Default 5, 1 to 60.
	TimeoutSeconds int `yaml:"timeout_seconds"`
}

// TLSConfig names a certificate of your own for every listener. Without one,
// those beyond the loopback have certificates of the internal authority.
type TLSConfig struct {
	// CertFile is the certificate, with those that vouch for it behind it.
	CertFile string `yaml:"cert_file"`
	// KeyFile is its key.
	KeyFile string `yaml:"key_file"`
	// CAFile has the authorities that other servers' certificates are verified by,
	// beside the internal one. Default those of the system, where cert_file is given.
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
	// EnablePreemption lets running jobs be stopped for waiting ones: by a class
	// that is higher by two or more, or to take back lent quota. Default true.
	EnablePreemption bool `yaml:"enable_preemption"`
	// PreemptionCeiling is how many GPUs may be stopped for each one that a job
	// asks for. Default 4; 0 for no ceiling.
	PreemptionCeiling float64 `yaml:"preemption_ceiling"`
	// MaxPreemptions is how often one job gives way at most, to whomever. Default 3;
	// 0 for no bound.
	MaxPreemptions int `yaml:"max_preemptions"`
	// PreemptionCooldownSeconds is how long a job that gave way is left alone once
	// it runs again. Default 300, 0 to 86400.
	PreemptionCooldownSeconds int `yaml:"preemption_cooldown_seconds"`
	// RestartSeconds is what starting again is reckoned to cost each GPU of a job
	// that gives way, beside the work it loses. Default 60, 0 to 3600.
	RestartSeconds int `yaml:"restart_seconds"`
	// MaxPreemptionsPerHour is how many jobs those of one tenant may stop by class
	// in an hour. Default 100; 0 for no bound.
	MaxPreemptionsPerHour int `yaml:"max_preemptions_per_hour"`
	// Consolidation moves jobs to make room for others.
	Consolidation ConsolidationConfig `yaml:"consolidation"`
	// EnableThermalAware keeps new work off hot devices. Default true.
	EnableThermalAware bool `yaml:"enable_thermal_aware"`
	// ThermalThreshold is the temperature in °C above which a device is given no
	// new work. Default 75, up to 150.
	ThermalThreshold float64 `yaml:"thermal_threshold"`
	// ThermalMargin is how many °C below the threshold a device is already
	// pushed back behind cooler ones. Default 10.
	ThermalMargin int `yaml:"thermal_margin"`
	// AgeingStepSeconds is how long a job waits for each point of priority it
	// gains. Default 10, 1 to 86400.
	AgeingStepSeconds int `yaml:"ageing_step_seconds"`
	// UsageHalfLifeHours is how long past use takes to count half. Default 24,
	// 1 to 8784.
	UsageHalfLifeHours int `yaml:"usage_half_life_hours"`
	// ModelWeights are what GPUs of a model count against others in fair shares,
	// such as {h100: 2}. A model that is not named counts 1.
	ModelWeights map[string]float64 `yaml:"model_weights"`
	// Placement is the rule by which a node is chosen for a job of one member:
	// random, bestfit, dotprod, packing, clustering or fgd, which are there to
	// compare with and take time that grows with the fleet. Default empty: the
	// least stranded capacity.
	Placement string `yaml:"placement"`
	// QueueOrder is what orders the jobs of a queue: aged (priority that grows
	// with waiting, and deadlines), fifo, shortest, shortest-remaining,
	// least-service, attained or edf. Default aged.
	QueueOrder string `yaml:"queue_order"`
	// BlockedJobs is what becomes of those behind a job that finds no place:
	// skip (whoever fits, starts), hold (they wait with it) or reserve (they
	// start if it is not delayed, as far as predictions tell). Default skip.
	BlockedJobs string `yaml:"blocked_jobs"`
	// AttainedGPUSeconds is up to how much service jobs come first with the order
	// attained. Default 0, which stands for 3200.
	AttainedGPUSeconds int `yaml:"attained_gpu_seconds"`
	// PreemptByOrder lets a waiting job stop running ones of its own queue and
	// class that come later in queue_order, if these keep their progress
	// (checkpoint.enabled) and it then fits. It needs a queue_order that gives a
	// right to that: not aged, fifo or edf. Default false.
	PreemptByOrder bool `yaml:"preempt_by_order"`
	// PreemptPeersAfterHours is how long a job waits, with the order attained and
	// preempt_by_order, until it also stops those that had as much as it and were
	// submitted after it. Default 0: never. Up to 8784.
	PreemptPeersAfterHours int `yaml:"preempt_peers_after_hours"`
	// InfeasibleDeadlines is what becomes of a job that will hardly meet its
	// deadline, by the time that nine of ten jobs like it took: accept, warn (it is
	// accepted, and the answer says so) or refuse. Nothing is said before 28 runs
	// are known, and a deadline that is past is refused in any case. Default warn.
	InfeasibleDeadlines string `yaml:"infeasible_deadlines"`
	// Reservations keep places for jobs that find none.
	Reservations ReservationsConfig `yaml:"reservations"`
	// CheckLaws counts everything anew from the records at each decision and
	// reports what the decision got wrong, in the log and in
	// ares_law_violations_total. For finding faults: the time of a decision then
	// grows with all live jobs and nodes. Default false.
	CheckLaws bool `yaml:"check_laws"`
	// LeaderTTLSeconds is how long a silent leader keeps its place. Default 5, 1 to 60.
	LeaderTTLSeconds int `yaml:"leader_ttl_seconds"`
}

// ConsolidationConfig is when running jobs that keep their progress
// (checkpoint.enabled) are moved to make room for one that waits.
type ConsolidationConfig struct {
	// Enabled lets them be moved. Default false. What would be is shown in any
	// case by ares consolidate --dry-run.
	Enabled bool `yaml:"enabled"`
	// Gain is how many times its cost a move must gain. Default 2, 1 to 100.
	Gain float64 `yaml:"gain"`
}

// ReservationsConfig is for which jobs that find no place one is kept, and what
// that may cost the others. It counts with blocked_jobs skip.
type ReservationsConfig struct {
	// First is for how many of them a place is kept, in the order of all queues
	// together; of jobs alike in one queue the first alone counts. Default 2, up to 64; 0 for none:
	// then a large job may wait for ever.
	First int `yaml:"first"`
	// AfterSeconds is how long a job waits before a place is kept for it. Default 300.
	AfterSeconds int `yaml:"after_seconds"`
	// HoldAfterSeconds is how long a job waits before what comes free is
	// kept for it alone though nobody knows when the rest will, or though
	// predictions fail it; one job at a time. Default 604800; 0 for never.
	HoldAfterSeconds int `yaml:"hold_after_seconds"`
	// SlackPercent is how much later the start of such a job may become by jobs
	// that start before it, in hundredths of its wait. Default 10.
	SlackPercent int `yaml:"slack_percent"`
	// SlackSeconds is how much later its start may become in any case. Default 60.
	SlackSeconds int `yaml:"slack_seconds"`
}

// SessionsConfig is about nodes that fall silent.
type SessionsConfig struct {
	// TTLSeconds is how long a silent node keeps its session, and the least
	// lost_after_seconds a job may ask for; 2 to 300. Default 0: 20, and 60 for
	// the sessions that are opened while more than 1,000 nodes are known.
	TTLSeconds int `yaml:"ttl_seconds"`
	// BrakePercent stops the reassignment of jobs when more of the nodes than
	// this are lost together. Default 55; 100 never stops.
	BrakePercent int `yaml:"brake_percent"`
}

// JobsConfig is about finished jobs.
type JobsConfig struct {
	// ArchiveAfterMinutes is how long a finished job stays in the live store;
	// then it is in history and the archive file alone. Default 1440, at least 1.
	ArchiveAfterMinutes int `yaml:"archive_after_minutes"`
	// RememberDays is how long after its job's end a request_id is remembered.
	// Default 7, at least 1.
	RememberDays int `yaml:"remember_days"`
}

// LogConfig is about the server's own log.
type LogConfig struct {
	// Level is the least that is written: debug, info, warn or error. Default info. Also LOG_LEVEL.
	Level string `yaml:"level"`
	// Format is how a line is written: text or json. Default text.
	Format string `yaml:"format"`
}

// Default is the configuration that is used where nothing else is said.
func Default() Config {
	return Config{
		DataDir: DefaultDataDir(), HTTPAddr: "127.0.0.1:8080", GRPCAddr: "127.0.0.1:9090", MetricsAddr: "127.0.0.1:9091",
		Etcd:      EtcdConfig{TimeoutSeconds: 5},
		Scheduler: defaultScheduler(),
		Sessions:  SessionsConfig{BrakePercent: 55},
		Jobs:      JobsConfig{ArchiveAfterMinutes: 1440, RememberDays: 7},
		Limits:    defaultLimits(),
		Auth:      defaultAuth(),
		Recording: RecordingConfig{FileMB: 64, Files: 8},
		Isolation: agent.DefaultIsolation(),
		Audit:     defaultAudit(),
		Alerts:    defaultAlerts(),
		Redis:     RedisConfig{TimeoutMS: defaultRedisTimeoutMS},
		History:   HistoryConfig{Currency: "USD"},
		Log:       LogConfig{Level: "info", Format: "text"},
		PKI:       defaultPKI(),
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

// Check reports every mistake at once, those of the file and the environment
// that Load read included.
func (c *Config) Check() error {
	p := slices.Clone(c.wrong)
	if c.DataDir == "" {
		p.Add("data_dir", "is empty: name a directory")
	}
	c.checkListeners(&p)
	for _, r := range append(append(c.Limits.ranges(), c.Audit.ranges()...), []intRange{
		{"etcd.timeout_seconds", c.Etcd.TimeoutSeconds, 1, 60},
		{"scheduler.scheduling_interval_ms", c.Scheduler.SchedulingIntervalMS, 10, 60_000},
		{"scheduler.max_queue_size", c.Scheduler.MaxQueueSize, 1, 100_000_000},
		{"scheduler.leader_ttl_seconds", c.Scheduler.LeaderTTLSeconds, 1, 60},
		{"sessions.ttl_seconds", cmp.Or(c.Sessions.TTLSeconds, 2), 2, 300},
		{"sessions.brake_percent", c.Sessions.BrakePercent, 1, 100},
		{"jobs.archive_after_minutes", c.Jobs.ArchiveAfterMinutes, 1, 60 * 24 * 366},
		{"jobs.remember_days", c.Jobs.RememberDays, 1, 3660},
		{"recording.file_mb", c.Recording.FileMB, 1, 100_000},
		{"pki.node_cert_seconds", c.PKI.NodeCertSeconds, 10, int(pki.MaxNodeLife / time.Second)},
		{"recording.files", c.Recording.Files, 2, 10_000},
		{"redis.timeout_ms", c.Redis.TimeoutMS, 1, 1000},
		{"limits.calls_at_once", c.Limits.CallsAtOnce, 0, 1_000_000},
	}...) {
		if r.v < r.lo || r.v > r.hi {
			p.Add(r.key, "must be between %d and %d, got %d", r.lo, r.hi, r.v)
		}
	}
	for _, t := range c.Taints {
		if _, err := ares.ParseTaint(t); err != nil {
			p.Add("taints", "%s", err)
		}
	}
	c.Etcd.check(&p)
	c.Isolation.Check(&p)
	c.Scheduler.check(&p)
	c.Auth.OIDC.check(&p)
	c.Alerts.check(&p)
	c.Redis.check(&p)
	if r := c.Limits.CallsPerSecond; !(r >= 0 && r <= 1_000_000) { // a NaN is wrong too
		p.Add("limits.calls_per_second", "must be between 0 (no bound) and 1000000, got %v", r)
	}
	c.History.check(&p, &c.Jobs)
	if _, err := logLevel(c.Log.Level); err != nil {
		p.Add("log.level", "%q is unknown: use debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		p.Add("log.format", "%q is unknown: use text or json", c.Log.Format)
	}
	return p.Err()
}

// checkListeners refuses addresses that cannot be listened on.
func (c *Config) checkListeners(p *ares.Problems) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		p.Add("tls", "give both cert_file and key_file, or neither")
	}
	if host, _, err := net.SplitHostPort(c.GRPCAddr); err == nil && c.AdvertiseAddr == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			p.Add("advertise_addr", "is needed when grpc_addr names no host: give grpc_addr an address of this machine, or set advertise_addr (--advertise-addr HOST:PORT) to where agents and other servers reach this one")
		}
	}
	if host, port, err := net.SplitHostPort(c.AdvertiseAddr); c.AdvertiseAddr != "" && (err != nil || host == "" || port == "") {
		p.Add("advertise_addr", "%q is not an address: write it as ares-1.example.com:9090", c.AdvertiseAddr)
	}
	for _, door := range []struct{ key, addr string }{
		{"http_addr", c.HTTPAddr}, {"grpc_addr", c.GRPCAddr}, {"metrics_addr", c.MetricsAddr},
	} {
		if _, _, err := net.SplitHostPort(door.addr); err != nil {
			p.Add(door.key, "%q is not an address: write it as 127.0.0.1:8080", door.addr)
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

// SessionTTL is how long a session outlives its last renewal when it is opened
// in a fleet of so many nodes. The least is that of a fleet of none.
func (c *Config) SessionTTL(nodes int) time.Duration {
	switch {
	case c.Sessions.TTLSeconds != 0:
		return time.Duration(c.Sessions.TTLSeconds) * time.Second
	case nodes > 1000:
		return time.Minute
	default:
		return 20 * time.Second
	}
}
