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
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/pki"
)

// Config of a server. Every key can be given in the YAML file, and as an
// environment variable: ARES_ and the key in capitals, such as ARES_HTTP_ADDR
// or ARES_ETCD_ENDPOINTS. It is read once, at the start.
type Config struct {
	// Role is what the server is for: cluster for a cluster with nodes, or global
	// for the hub of several clusters, which has no nodes of its own. Default
	// cluster.
	Role string `yaml:"role"`
	// DataDir holds the embedded store, tokens and journals. Default: the
	// user's data directory.
	DataDir string `yaml:"data_dir"`
	// HTTPAddr serves REST and events. Default 127.0.0.1:8080.
	HTTPAddr string `yaml:"http_addr"`
	// GRPCAddr serves gRPC for clients and agents. Default 127.0.0.1:9090.
	GRPCAddr string `yaml:"grpc_addr"`
	// MetricsAddr serves /metrics. Default 127.0.0.1:9091.
	MetricsAddr string `yaml:"metrics_addr"`
	// AdvertiseAddr is the address at which agents and other servers reach this
	// server's gRPC. Default grpc_addr.
	AdvertiseAddr string `yaml:"advertise_addr"`
	// Hosts are the names of this server, besides loopback names.
	Hosts []string `yaml:"hosts"`
	// Taints are the taints of the node, each key=value:NoSchedule or
	// key=value:PreferNoSchedule. Only ares agent and ares up read them.
	Taints []string `yaml:"taints"`

	Etcd      EtcdConfig      `yaml:"etcd"`
	TLS       TLSConfig       `yaml:"tls"`
	Scheduler SchedulerConfig `yaml:"scheduler"`
	Sessions  SessionsConfig  `yaml:"sessions"`
	Jobs      JobsConfig      `yaml:"jobs"`
	Limits    LimitsConfig    `yaml:"limits"`
	Metrics   MetricsConfig   `yaml:"metrics"`
	Auth      AuthConfig      `yaml:"auth"`
	Recording RecordingConfig `yaml:"recording"`

	SessionRecording SessionRecordingConfig `yaml:"session_recording"`

	Isolation IsolationConfig `yaml:"isolation"`
	Images    ImagesConfig    `yaml:"images"`
	Audit     AuditConfig     `yaml:"audit"`
	Alerts    AlertsConfig    `yaml:"alerts"`
	Notify    NotifyConfig    `yaml:"notifications"`
	Redis     RedisConfig     `yaml:"redis"`
	History   HistoryConfig   `yaml:"history"`
	Log       LogConfig       `yaml:"log"`
	PKI       PKIConfig       `yaml:"pki"`

	Federation FederationConfig `yaml:"federation"`

	Secrets SecretsConfig `yaml:"secrets"`
	Objects ObjectsConfig `yaml:"objects"`

	wrong   ares.Problems // mistakes that Load found
	notices []string      // lines for the log about the form of the file
}

// EtcdConfig names an external etcd. Without endpoints, the server runs an
// embedded etcd.
type EtcdConfig struct {
	// Endpoints are the addresses of its members, such as https://etcd-1:2379. Also
	// ETCD_ENDPOINTS.
	Endpoints []string `yaml:"endpoints"`
	// CAFile contains the certificate authorities for etcd's certificate.
	// Default: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile is the client certificate for etcd, if etcd requires one.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the key of that certificate.
	KeyFile string `yaml:"key_file"`
	// Username is the user for etcd, if etcd requires authentication.
	Username string `yaml:"username"`
	// Password is the password of that user. Set ARES_ETCD_PASSWORD to keep it
	// out of the file.
	Password string `yaml:"password"`
	// TimeoutSeconds limits one operation of the store. Default 5, 1 to 60.
	TimeoutSeconds int `yaml:"timeout_seconds"`
}

// TLSConfig names your own certificate for all listeners. If you set no
// certificate, listeners on the network use certificates of the internal
// certificate authority.
type TLSConfig struct {
	// CertFile is the certificate, followed by its intermediate certificates.
	CertFile string `yaml:"cert_file"`
	// KeyFile is the key of that certificate.
	KeyFile string `yaml:"key_file"`
	// CAFile contains certificate authorities for the certificates of other
	// servers, besides the internal one. Default: those of the system, if
	// cert_file is set.
	CAFile string `yaml:"ca_file"`
}

// SchedulerConfig configures scheduling decisions.
type SchedulerConfig struct {
	// SchedulingIntervalMS is the longest time between two cycles without
	// events. An event starts a cycle at once. Default 1000, 10 to 60000.
	SchedulingIntervalMS int `yaml:"scheduling_interval_ms"`
	// MaxQueueSize limits the waiting jobs of all tenants. Default 1000000.
	MaxQueueSize int `yaml:"max_queue_size"`
	// MaxRanksPerNode limits the ranks that run on one node at the same time,
	// however little they request. Default 128, 1 to 512.
	MaxRanksPerNode int `yaml:"max_ranks_per_node"`
	// DefaultCPUCores is the number of CPU cores of a job that requests neither
	// CPU cores nor whole GPUs. Default 1; 0 for none, so that such jobs are not
	// limited and not counted.
	DefaultCPUCores int `yaml:"default_cpu_cores"`
	// DefaultMemoryMB is the memory of a job that requests neither memory nor
	// whole GPUs. Default 1024; 0 for none.
	DefaultMemoryMB int `yaml:"default_memory_mb"`
	// EnableGangScheduling allows jobs with several members. Default true.
	EnableGangScheduling bool `yaml:"enable_gang_scheduling"`
	// EnablePreemption allows preemption by a class that is at least two higher,
	// and to reclaim borrowed quota. Default true.
	EnablePreemption bool `yaml:"enable_preemption"`
	// PreemptionCeiling is the number of GPUs that may be preempted for each
	// requested GPU. Default 4; 0 for unlimited.
	PreemptionCeiling float64 `yaml:"preemption_ceiling"`
	// MaxPreemptions limits how often one job is preempted. Default 3; 0 for
	// unlimited.
	MaxPreemptions int `yaml:"max_preemptions"`
	// PreemptionCooldownSeconds is how long a preempted job is protected after
	// it runs again. Default 300, 0 to 86400.
	PreemptionCooldownSeconds int `yaml:"preemption_cooldown_seconds"`
	// RestartSeconds is the estimated cost of a restart for each GPU of a
	// preempted job, besides its lost work. Default 60, 0 to 3600.
	RestartSeconds int `yaml:"restart_seconds"`
	// MaxPreemptionsPerHour limits how many jobs the jobs of one tenant preempt
	// by class in an hour. Default 100; 0 for unlimited.
	MaxPreemptionsPerHour int `yaml:"max_preemptions_per_hour"`
	// Consolidation moves jobs to make room for others.
	Consolidation ConsolidationConfig `yaml:"consolidation"`
	// EnableThermalAware keeps new jobs off hot devices. Default true.
	EnableThermalAware bool `yaml:"enable_thermal_aware"`
	// ThermalThreshold is the temperature in °C above which a device gets no new
	// jobs. Default 75, up to 150.
	ThermalThreshold float64 `yaml:"thermal_threshold"`
	// ThermalMargin is how many °C below the threshold Ares starts to prefer
	// cooler devices. Default 10.
	ThermalMargin int `yaml:"thermal_margin"`
	// AgeingStepSeconds is the waiting time that raises the priority of a job by
	// one point. Default 10, 1 to 86400.
	AgeingStepSeconds int `yaml:"ageing_step_seconds"`
	// UsageHalfLifeHours is the half-life of past usage in fair shares. Default
	// 24, 1 to 8784.
	UsageHalfLifeHours int `yaml:"usage_half_life_hours"`
	// ModelWeights are the weights of GPU models in fair shares, such as {h100:
	// 2}. Other models have the weight 1.
	ModelWeights map[string]float64 `yaml:"model_weights"`
	// Placement is the placement score for jobs with one member: random,
	// bestfit, dotprod, packing, clustering or fgd. These are for comparisons,
	// and their time grows with the cluster. Default empty: the least
	// fragmentation.
	Placement string `yaml:"placement"`
	// QueueOrder is the order of the jobs in a queue: expected-work (class, near
	// deadlines, priority, then the expected work), aged (priority
	// with ageing, and deadlines), fifo, shortest, shortest-remaining,
	// least-service, attained or edf. Default expected-work.
	QueueOrder string `yaml:"queue_order"`
	// OverdueAfterHours is the waiting time after which a job is overdue. With the
	// order expected-work, overdue jobs start before the other jobs of their queue
	// when they fit, oldest first. Default 168, 0 for never, up to 8784.
	OverdueAfterHours int `yaml:"overdue_after_hours"`
	// OverdueSharePercent is the share of a queue's GPUs up to which its overdue
	// jobs come first: running jobs that were overdue when they started count.
	// Default 10, 0 to 100.
	OverdueSharePercent int `yaml:"overdue_share_percent"`
	// BlockedJobs decides about the jobs behind a blocked job: skip (every job
	// that fits starts), hold (they wait too) or reserve (they start if their
	// predicted runtimes do not delay it). Default skip.
	BlockedJobs string `yaml:"blocked_jobs"`
	// AttainedGPUSeconds is the service up to which jobs come first with the
	// order attained. Default 0, which means 3200.
	AttainedGPUSeconds int `yaml:"attained_gpu_seconds"`
	// PreemptByOrder lets a waiting job preempt running jobs of its queue and
	// class that come later in queue_order, if they allow it (checkpoint.enabled
	// or preemptible) and it then fits. It needs a queue_order other than
	// expected-work, aged, fifo and edf. Default false.
	PreemptByOrder bool `yaml:"preempt_by_order"`
	// PreemptPeersAfterHours is the waiting time after which, with the order
	// attained and preempt_by_order, a job also preempts jobs with equal service
	// that were submitted later. Default 0: never. Up to 8784.
	PreemptPeersAfterHours int `yaml:"preempt_peers_after_hours"`
	// InfeasibleDeadlines decides about a job that will probably miss its
	// deadline, by the p90 of earlier runs of the same job: accept, warn (accept
	// with a warning) or refuse. It has no effect before 9 such runs are known. A
	// deadline in the past is always rejected. Default warn.
	InfeasibleDeadlines string `yaml:"infeasible_deadlines"`
	// Reservations keep places for jobs that find none.
	Reservations ReservationsConfig `yaml:"reservations"`
	// CheckLaws checks each decision against the invariants of the engine, and
	// reports violations in the log and in ares_law_violations_total. Use it to
	// find bugs: the time of a decision then grows with all live jobs and nodes.
	// Default false.
	CheckLaws bool `yaml:"check_laws"`
	// LeaderTTLSeconds is the time after which a silent leader is replaced.
	// Default 5, 1 to 60.
	LeaderTTLSeconds int `yaml:"leader_ttl_seconds"`
}

// ConsolidationConfig configures consolidation: Ares moves running jobs to make
// room for a waiting job. Ares moves only jobs that save checkpoints
// (checkpoint.enabled).
type ConsolidationConfig struct {
	// Enabled allows these moves. Default false. In any case, ares consolidate
	// --dry-run shows them.
	Enabled bool `yaml:"enabled"`
	// Gain is the least ratio of gain to cost of a move. Default 2, 1 to 100.
	Gain float64 `yaml:"gain"`
}

// ReservationsConfig configures backfill reservations for blocked jobs. These
// keys apply only if blocked_jobs is skip.
type ReservationsConfig struct {
	// First is the number of blocked jobs with a backfill reservation, in the
	// order of all queues together. Of identical jobs in one queue only the
	// first counts. Default 2, up to 64; 0 for none: then a large job can
	// starve.
	First int `yaml:"first"`
	// AfterSeconds is the waiting time before a job gets a backfill reservation.
	// Default 300.
	AfterSeconds int `yaml:"after_seconds"`
	// HoldAfterSeconds is the waiting time after which nodes may be held for a
	// job whose GPUs do not come free by themselves. Default 3628800; 0 for never.
	HoldAfterSeconds int `yaml:"hold_after_seconds"`
	// HoldIdlePercent limits the GPUs that are idle because nodes are held for
	// such jobs, as a percentage of the GPUs on which these jobs could run, with
	// one decimal. Default 0.2; 0 for no holds.
	HoldIdlePercent float64 `yaml:"hold_idle_percent"`
	// MaxSpreadPercent is how uncertain the runtimes of running jobs may be for a
	// reservation that waits for them: their p90 in percent of their median.
	// Default 200, 0 for any, 100 to 100000.
	MaxSpreadPercent int `yaml:"max_spread_percent"`
	// SlackPercent is how much other jobs may delay the start of such a job, in
	// percent of its waiting time. Default 10.
	SlackPercent int `yaml:"slack_percent"`
	// SlackSeconds is how much other jobs may delay its start in any case.
	// Default 60.
	SlackSeconds int `yaml:"slack_seconds"`
}

// SessionsConfig configures the detection of lost nodes.
type SessionsConfig struct {
	// TTLSeconds is how long a silent node keeps its session, and the smallest
	// lost_after_seconds of a job; 2 to 300, where less than 8 is meant for tests.
	// Default 0: 20, and 60 for sessions that are opened while more than 1,000
	// nodes are known.
	TTLSeconds int `yaml:"ttl_seconds"`
	// BrakePercent stops the reassignment of jobs when more than this percentage
	// of nodes is lost together. Default 55; 100 never stops it.
	BrakePercent int `yaml:"brake_percent"`
}

// JobsConfig configures the retention of finished jobs.
type JobsConfig struct {
	// ArchiveAfterMinutes is how long a finished job stays in the live store.
	// After that it is only in history and in the archive file. Default 1440, at
	// least 1.
	ArchiveAfterMinutes int `yaml:"archive_after_minutes"`
	// RememberDays is how long a request_id is remembered after the end of its
	// job. Default 7, at least 1.
	RememberDays int `yaml:"remember_days"`
	// ReuseTenantIDs permits a new tenant to have the ID of a deleted tenant whose
	// jobs are still known. The new tenant then sees those jobs and their usage.
	// Default false.
	ReuseTenantIDs bool `yaml:"reuse_tenant_ids"`
}

// LogConfig configures the server's log.
type LogConfig struct {
	// Level is the lowest level that is logged: debug, info, warn or error.
	// Default info. Also LOG_LEVEL.
	Level string `yaml:"level"`
	// Format is the format of log lines: text or json. Default text.
	Format string `yaml:"format"`
}

// Default returns the configuration that applies without a file and without environment variables.
func Default() Config {
	return Config{
		Role: RoleCluster, Federation: defaultFederation(),
		DataDir: DefaultDataDir(), HTTPAddr: "127.0.0.1:8080", GRPCAddr: "127.0.0.1:9090", MetricsAddr: "127.0.0.1:9091",
		Etcd:      EtcdConfig{TimeoutSeconds: 5},
		Scheduler: defaultScheduler(),
		Sessions:  SessionsConfig{BrakePercent: 55},
		Jobs:      JobsConfig{ArchiveAfterMinutes: 1440, RememberDays: 7},
		Limits:    defaultLimits(),
		Auth:      defaultAuth(),
		Recording: defaultRecording(),

		SessionRecording: defaultSessionRecording(),

		Isolation: agent.DefaultIsolation(),
		Images:    agent.DefaultImages(),
		Audit:     defaultAudit(),
		Alerts:    defaultAlerts(),
		Notify:    NotifyConfig{TenantPerMinute: 60},
		Redis:     RedisConfig{TimeoutMS: defaultRedisTimeoutMS},
		History:   HistoryConfig{Currency: "USD"},
		Log:       LogConfig{Level: "info", Format: "text"},
		PKI:       defaultPKI(),
		Objects:   ObjectsConfig{TenantMB: defaultTenantMB, LogDays: defaultLogDays, TenantLogMB: defaultTenantLogMB},
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

// Check reports all mistakes together, including those that Load found in the file and the environment.
func (c *Config) Check() error {
	p := slices.Clone(c.wrong)
	if c.DataDir == "" {
		p.Add("data_dir", "is empty: name a directory")
	}
	c.checkRole(&p)
	c.checkListeners(&p)
	for _, r := range append(slices.Concat(c.Limits.ranges(), c.Audit.ranges(), c.Recording.ranges(), c.SessionRecording.ranges(), c.Federation.ranges()), []intRange{
		{"etcd.timeout_seconds", c.Etcd.TimeoutSeconds, 1, 60},
		{"scheduler.scheduling_interval_ms", c.Scheduler.SchedulingIntervalMS, 10, 60_000},
		{"scheduler.max_queue_size", c.Scheduler.MaxQueueSize, 1, 100_000_000},
		{"scheduler.max_ranks_per_node", c.Scheduler.MaxRanksPerNode, 1, config.MaxNodeRanks},
		{"scheduler.default_cpu_cores", c.Scheduler.DefaultCPUCores, 0, ares.MaxCPUs},
		{"scheduler.default_memory_mb", c.Scheduler.DefaultMemoryMB, 0, ares.MaxMemoryMB},
		{"scheduler.leader_ttl_seconds", c.Scheduler.LeaderTTLSeconds, 1, 60},
		{"sessions.ttl_seconds", cmp.Or(c.Sessions.TTLSeconds, 2), 2, 300},
		{"sessions.brake_percent", c.Sessions.BrakePercent, 1, 100},
		{"jobs.archive_after_minutes", c.Jobs.ArchiveAfterMinutes, 1, 60 * 24 * 366},
		{"jobs.remember_days", c.Jobs.RememberDays, 1, 3660},
		{"pki.node_cert_seconds", c.PKI.NodeCertSeconds, 10, int(pki.MaxNodeLife / time.Second)},
		{"redis.timeout_ms", c.Redis.TimeoutMS, 1, 1000},
		{"limits.calls_at_once", c.Limits.CallsAtOnce, 0, 1_000_000},
		{"limits.connections_per_address", c.Limits.ConnectionsPerAddress, 0, 1_000_000},
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
	c.Images.Check(&p)
	c.Scheduler.check(&p)
	c.Auth.OIDC.check(&p)
	c.Alerts.check(&p)
	c.Notify.check(&c.Alerts, &p)
	c.Redis.check(&p)
	c.Objects.check(&p)
	c.SessionRecording.check(c, &p)
	c.Limits.checkRates(&p)
	c.History.check(&p, &c.Jobs)
	if _, err := logLevel(c.Log.Level); err != nil {
		p.Add("log.level", "%q is unknown: use debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "text" && c.Log.Format != "json" {
		p.Add("log.format", "%q is unknown: use text or json", c.Log.Format)
	}
	return p.Err()
}

// checkListeners reports invalid addresses and certificates of the server's listeners.
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
	keys := map[string]string{}
	for _, door := range []struct{ key, addr string }{
		{"http_addr", c.HTTPAddr}, {"grpc_addr", c.GRPCAddr}, {"metrics_addr", c.MetricsAddr},
	} {
		if _, port, err := net.SplitHostPort(door.addr); err != nil {
			p.Add(door.key, "%q is not an address: write it as 127.0.0.1:8080", door.addr)
		} else if first, taken := keys[door.addr]; taken && port != "0" {
			p.Add(door.key, "%s is the address of %s too: choose another port", door.addr, first)
		} else {
			keys[door.addr] = door.key
		}
	}
}

// YAML prints the configuration as a file that Load reads.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }

// SessionTTL returns the TTL of a session that is opened in a cluster with the given number of nodes. It is
// smallest for 0 nodes.
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
