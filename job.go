package ares

import (
	"strings"
	"time"
)

// Spec is a user's description of a job. A nil pointer means that the field is not set. This is different from a zero value.
// WithDefaults fills in the fields that are not set. The JSON form of a Spec is part of the public API.
type Spec struct {
	RequestID         string            `json:"request_id,omitzero"`
	Name              string            `json:"name,omitzero"`
	Tenant            string            `json:"tenant_id,omitzero"`
	Queue             string            `json:"queue,omitzero"`
	Priority          *int              `json:"priority,omitzero"`
	PriorityClass     Class             `json:"priority_class,omitzero"`
	Members           int               `json:"members,omitzero"`
	GPUs              int               `json:"gpu_count,omitzero"` // whole devices per member
	GPUMilli          int               `json:"gpu_milli,omitzero"` // thousandths of one device
	AcceleratorType   string            `json:"accelerator_type,omitzero"`
	GPUModel          string            `json:"gpu_model,omitzero"`
	AllowMixedModels  bool              `json:"allow_mixed_models,omitzero"` // members may have devices of different models
	CPUMilli          int32             `json:"cpu_milli,omitzero"`          // thousandths of a core in addition to CPUs, below 1000
	MIGProfile        string            `json:"mig_profile,omitzero"`
	GPUMemoryMB       int               `json:"gpu_memory_mb,omitzero"` // the member's total over its devices
	CPUs              int               `json:"cpu_cores,omitzero"`
	MemoryMB          int               `json:"memory_mb,omitzero"`
	NUMAPolicy        string            `json:"numa_policy,omitzero"`
	Command           []string          `json:"command,omitzero"`
	Args              []string          `json:"args,omitzero"`
	Image             string            `json:"image,omitzero"`
	Environment       map[string]string `json:"environment,omitzero"`
	WorkingDir        string            `json:"working_dir,omitzero"`
	Gang              *bool             `json:"gang_scheduling,omitzero"`
	MinMembers        int               `json:"min_members,omitzero"`
	Constraints       *Placement        `json:"placement,omitzero"` // see Placement and EditPlacement
	Deadline          time.Time         `json:"deadline,omitzero"`
	MaxQueueMinutes   int               `json:"max_queue_minutes,omitzero"`
	MaxRuntimeMinutes int               `json:"max_runtime_minutes,omitzero"`
	Retry             RetryPolicy       `json:"retry,omitzero"`
	Mode              Mode              `json:"execution_mode,omitzero"`
	LostAfterSeconds  int               `json:"lost_after_seconds,omitzero"`
	GraceSeconds      *int              `json:"grace_seconds,omitzero"`
	Checkpoint        Checkpoint        `json:"checkpoint,omitzero"`
	Preemptible       *bool             `json:"preemptible,omitzero"` // see IsPreemptible
	After             []string          `json:"after,omitzero"`
	Array             Array             `json:"array,omitzero"`
	Labels            map[string]string `json:"labels,omitzero"`
	Secrets           []SecretRef       `json:"secrets,omitzero"`
	CodeDigest        string            `json:"code_digest,omitzero"` // a snapshot of a directory, which is the working directory of each rank
	Start             *StartConditions  `json:"start,omitzero"`       // nil for a job that may start as soon as it fits
	Notify            []string          `json:"notify,omitzero"`      // rules such as "end,fail=mail"; see ParseNotifyRule
}

// Placement constrains where a job runs.
type Placement struct {
	Strategy         string            `json:"strategy,omitzero"`
	RequiredLevel    string            `json:"required_level,omitzero"`
	PreferredLevel   string            `json:"preferred_level,omitzero"`
	PreferredDomain  string            `json:"preferred_domain,omitzero"`
	NetworkBandwidth string            `json:"network_bandwidth,omitzero"`
	LatencySensitive bool              `json:"latency_sensitive,omitzero"`
	NodeSelector     map[string]string `json:"node_selector,omitzero"`
	Tolerations      []string          `json:"tolerations,omitzero"`
	Regions          []string          `json:"regions,omitzero"`
	// NodeAffinity lists conditions on a node's labels, such as "gen in (3, 4)", "zone notin (b)", "nvme" or
	// "!spot". The node must meet all of them.
	NodeAffinity []string `json:"node_affinity,omitzero"`
	// PreferredNodeAffinity lists conditions that raise the score of a node that meets them.
	PreferredNodeAffinity []string `json:"preferred_node_affinity,omitzero"`
	// Affinity and AntiAffinity select running jobs of the same tenant by their labels, and may name a topology
	// level: "app=db", "app=web,tier=front @leaf". With Affinity, the job is placed only near the selected jobs.
	// With AntiAffinity, it is never placed near them.
	Affinity     []string `json:"affinity,omitzero"`
	AntiAffinity []string `json:"anti_affinity,omitzero"`
	// PreferredAntiAffinity selects jobs as AntiAffinity does. The job is placed near as few of them as possible, and it
	// never waits for that. It spreads replicas, each of which is a job of its own.
	PreferredAntiAffinity []string `json:"preferred_anti_affinity,omitzero"`
	// The job runs only on nodes and GPUs that meet all NodeRequirements.
	NodeRequirements NodeRequirements `json:"node_requirements,omitzero"`

	// The remaining fields say more about a job than where it runs. Few jobs set them, so they are here and not in Spec.

	// Network is the network of the job's processes: NetworkHost, which is the default, or NetworkNone. It is a constraint, too: not
	// every node can keep a job from the machine's network.
	Network string `json:"network,omitzero"`

	// Clusters are the only clusters to which a hub may grant the job; empty for any.
	Clusters []string `json:"clusters,omitzero"`
	// Data lists the datasets that the job reads. A hub prefers clusters that have them.
	Data []DataSet `json:"data,omitzero"`
	// OnPartition says what a hub does when the cluster that owns the job is silent.
	OnPartition PartitionPolicy `json:"on_partition,omitzero"`
	// ClusterLostAfterSeconds is how long a cluster may be silent before a hub gives the job to another one. It needs the
	// policy PartitionFence.
	ClusterLostAfterSeconds int `json:"cluster_lost_after_seconds,omitzero"`

	// Mounts are files and directories of the node that a job in an image sees. They are here because few jobs have them, too.
	Mounts []Mount `json:"mounts,omitzero"`

	// Stdin gives the first process of each member a standard input to which users can write, and TTY a terminal. They are constraints,
	// too: agents of earlier versions can do neither.
	Stdin bool `json:"stdin,omitzero"`
	TTY   bool `json:"tty,omitzero"`

	// ContainerRoot makes the processes of a job in an image root of a user namespace in which only the job's user exists. It is a
	// constraint, too: not every node can do this.
	ContainerRoot bool `json:"container_root,omitzero"`
}

// DataSet is data that a job reads.
type DataSet struct {
	URI string `json:"uri,omitzero"`
	// Region is the only region in which the job may run because of this data; "" for any.
	Region string `json:"region,omitzero"`
	Bytes  int64  `json:"bytes,omitzero"`
}

// PartitionPolicy says what happens to a job whose cluster no longer answers its hub.
type PartitionPolicy string

// The policies for a silent cluster.
const (
	PartitionWait  PartitionPolicy = "wait"  // the job stays there (default)
	PartitionFence PartitionPolicy = "fence" // the cluster stops the job in time, and then another cluster may run it
)

// IsZero reports whether no field is set. The JSON form of a spec leaves out such a placement.
func (p *Placement) IsZero() bool {
	return p == nil || p.Strategy == "" && p.RequiredLevel == "" && p.PreferredLevel == "" && p.PreferredDomain == "" && p.NetworkBandwidth == "" &&
		!p.LatencySensitive && p.NodeSelector == nil && p.Tolerations == nil && p.Regions == nil && p.NodeAffinity == nil &&
		p.PreferredNodeAffinity == nil && p.Affinity == nil && p.AntiAffinity == nil && p.PreferredAntiAffinity == nil && p.NodeRequirements == nil &&
		p.Clusters == nil && p.Data == nil && p.OnPartition == "" && p.ClusterLostAfterSeconds == 0 && p.Mounts == nil && p.Network == "" &&
		!p.Stdin && !p.TTY && !p.ContainerRoot
}

// Placement returns the constraints on where the job runs. It is empty if there are none. Most jobs have none or the same
// as many others, so a spec has only a pointer to them.
func (s *Spec) Placement() Placement {
	if s.Constraints == nil {
		return Placement{}
	}
	return *s.Constraints
}

// EditPlacement returns a placement that belongs to this spec alone and can be changed. Copies of a spec share their
// placement, so the placement is copied first.
func (s *Spec) EditPlacement() *Placement {
	s.Constraints = new(s.Placement())
	return s.Constraints
}

// RetryPolicy says which failures are retried, how often, and after what delay.
type RetryPolicy struct {
	MaxRetries            *int     `json:"max_retries,omitzero"`
	InitialBackoffSeconds float64  `json:"initial_backoff_seconds,omitzero"`
	Multiplier            float64  `json:"multiplier,omitzero"`
	MaxBackoffSeconds     float64  `json:"max_backoff_seconds,omitzero"`
	RetryOn               []string `json:"retry_on,omitzero"`
}

// These are the failures that retry_on may list. A command that cannot be started is never retried, because the next attempt would fail
// in the same way.
const (
	RetryOnFailure = "failure" // a non-zero exit code
	RetryOnSignal  = "signal"  // ended by a signal that Ares did not send
	RetryOnTimeout = "timeout" // max_runtime_minutes passed
)

// The networks of a job's processes.
const (
	NetworkHost = "host" // the machine's network (default)
	NetworkNone = "none" // only a loopback interface of the job's own
)

// IsAttachable reports whether users can write to the job.
func (s *Spec) IsAttachable() bool {
	return s.Constraints != nil && (s.Constraints.Stdin || s.Constraints.TTY)
}

// IsContainerRoot reports whether the job's processes are root in its image.
func (s *Spec) IsContainerRoot() bool {
	return s.Constraints != nil && s.Constraints.ContainerRoot
}

// HasOwnNetwork reports whether the job must not reach the machine's network.
func (s *Spec) HasOwnNetwork() bool {
	return s.Constraints != nil && s.Constraints.Network == NetworkNone
}

// Mode says how a job is treated when its node is lost.
type Mode string

// The execution modes.
const (
	Restart    Mode = "restart"      // run again elsewhere (default)
	AtMostOnce Mode = "at_most_once" // end as lost; never retried automatically
)

// Checkpoint says whether and how often a job saves its state.
type Checkpoint struct {
	Enabled         bool   `json:"enabled,omitzero"`
	IntervalMinutes int32  `json:"interval_minutes,omitzero"` // 32 bits, so that a job stays small
	Path            string `json:"path,omitzero"`
}

// Array requests many equal elements of one job.
type Array struct {
	Count       int `json:"count,omitzero"`
	Parallelism int `json:"parallelism,omitzero"`
}

// Job is an accepted Spec with its ID. A job read from the store has its defaults filled in.
type Job struct {
	Spec

	ID     JobID
	Digest Digest // digest of the submission as received
	// Trusted is true if a platform administrator submitted the job. It is decided from the authenticated caller when the job is
	// accepted, and never from the submission. Only a trusted job may run on a node with Node.TrustedOnly.
	Trusted    bool         `json:",omitempty"`
	AcceptedAt time.Time    // wall clock of the accepting server
	Revision   int64        // store revision at which the job was accepted; it orders jobs
	Owner      string       // the identity that submitted it
	RetryOf    JobID        // the job this one repeats, "" when none
	ArrayOf    JobID        // the array this one is an element of, "" when none
	ArrayIndex int32        // of an element: its index, from 0
	ArrayCount int32        // of an element: how many there are
	Notes      []PolicyNote // notes that policies added when the job was accepted
	Origin     *Origin      `json:",omitempty"` // the grant of a hub, nil for a job that was submitted here
}

// DefaultsVersion is the version of the defaults below. A stored job consists of the submitted
// fields and the version of the defaults under which it was accepted. When a default changes,
// WithDefaultsOf must still know the old value.
//
// In version 1, members defaulted to min_members even if gang_scheduling was false. Up to version 2, lost_after was 30 s, and
// the members of every job could have devices of different models.
const DefaultsVersion = 3

// These are the default values of a job's fields.
const (
	DefaultTenant       = "default"
	DefaultQueue        = "default"
	DefaultLostAfter    = 25 * time.Second
	DefaultGraceSeconds = 30
	DefaultMaxRetries   = 3
	DefaultAccelerator  = "gpu"
)

// EarlierLostAfter is the default lost_after of jobs that were accepted under version 2 of the defaults or an earlier
// one. Their supervisors use it, so servers must wait for it as well.
const EarlierLostAfter = 30 * time.Second

// WithDefaults returns the spec with every missing field filled in.
func (s Spec) WithDefaults() Spec { return s.WithDefaultsOf(DefaultsVersion) }

// WithDefaultsOf is like WithDefaults, but uses the defaults of a given version.
func (s Spec) WithDefaultsOf(version int) Spec {
	fill(&s.Tenant, DefaultTenant)
	fill(&s.Queue, DefaultQueue)
	fill(&s.Members, 1)
	fill(&s.AcceleratorType, DefaultAccelerator)
	fill(&s.NUMAPolicy, "none")
	fill(&s.Mode, Restart)
	if version < 3 {
		fill(&s.LostAfterSeconds, int(EarlierLostAfter/time.Second))
	}
	fill(&s.LostAfterSeconds, int(DefaultLostAfter/time.Second))
	if s.Constraints == nil {
		s.Constraints = defaultPlacement
	} else if s.Constraints.Strategy == "" {
		s.EditPlacement().Strategy = defaultPlacement.Strategy
	}
	if version >= 2 && s.Gang != nil && !*s.Gang {
		fill(&s.MinMembers, 1) // without a gang, the job starts with as many members as fit
	}
	fill(&s.MinMembers, s.Members)
	if version < 3 && s.Members > 1 && s.GPUModel == "" {
		s.AllowMixedModels = true
	}
	fill(&s.Retry.InitialBackoffSeconds, 1)
	fill(&s.Retry.Multiplier, 2)
	fill(&s.Retry.MaxBackoffSeconds, 300)
	if s.Priority == nil {
		s.Priority = &defaultPriority
		if s.PriorityClass != "" {
			s.Priority = new(s.PriorityClass.Floor())
		}
	}
	s.PriorityClass = ClassOf(*s.Priority)
	if s.Gang == nil {
		if s.Gang = &noGang; s.Members > 1 {
			s.Gang = &gang
		}
	}
	if s.GraceSeconds == nil {
		s.GraceSeconds = &defaultGraceSeconds
	}
	if s.Retry.MaxRetries == nil {
		s.Retry.MaxRetries = &defaultMaxRetries
	}
	if s.Retry.RetryOn == nil {
		s.Retry.RetryOn = []string{RetryOnFailure, RetryOnSignal}
	}
	if s.Array.Count > 0 {
		fill(&s.Array.Parallelism, s.Array.Count)
	}
	return s
}

// Specs share these values, because defaults are filled in several times for each submission. Values that a spec points to are never
// changed in place: see EditPlacement.
var (
	defaultPlacement    = &Placement{Strategy: "balanced"}
	defaultPriority     = DefaultPriority
	defaultGraceSeconds = DefaultGraceSeconds
	defaultMaxRetries   = DefaultMaxRetries
	gang, noGang        = true, false
)

// HasDefaultPlacement reports whether a spec has the default placement, which it shares with other specs.
func (s *Spec) HasDefaultPlacement() bool { return s.Constraints == defaultPlacement }

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Argv is the command line of the job's process.
func (s Spec) Argv() []string {
	return append(append(make([]string, 0, len(s.Command)+len(s.Args)), s.Command...), s.Args...)
}

// LostAfter is how long a job keeps its seats on a silent node.
func (s Spec) LostAfter() time.Duration { return time.Duration(s.LostAfterSeconds) * time.Second }

// Grace is the time between SIGTERM and SIGKILL.
func (s Spec) Grace() time.Duration {
	if s.GraceSeconds == nil {
		return DefaultGraceSeconds * time.Second
	}
	return time.Duration(*s.GraceSeconds) * time.Second
}

// IsPreemptible reports whether the job may be stopped for a job of its own queue and class that is expected to need
// much less time. A job that saves checkpoints is preemptible unless it says otherwise. A job that must not run twice or
// is latency-sensitive never is.
func (s Spec) IsPreemptible() bool {
	if s.Mode == AtMostOnce || s.Placement().LatencySensitive {
		return false
	}
	if s.Preemptible != nil {
		return *s.Preemptible
	}
	return s.Checkpoint.Enabled
}

// MaxRuntime is the time limit of one attempt, or 0 if there is no limit.
func (s Spec) MaxRuntime() time.Duration {
	return time.Duration(s.MaxRuntimeMinutes) * time.Minute
}

// PriorityValue returns the job's priority, or the default if none is set.
func (s Spec) PriorityValue() int {
	if s.Priority == nil {
		return DefaultPriority
	}
	return *s.Priority
}

// NeedsOneModel reports whether all members of a job with several members must have devices of the same model. A job
// that names its models in gpu_model accepts each of them for each member.
func (s Spec) NeedsOneModel() bool {
	return !s.AllowMixedModels && strings.Trim(s.GPUModel, "| ") == ""
}

// TotalGPUs counts the whole devices that all members request.
func (s Spec) TotalGPUs() int { return s.GPUs * max(s.Members, 1) }

// ownVariables lists the environment variables that Ares sets in every job. If a job sets one of them, its value is
// ignored.
var ownVariables = []string{
	"ARES_ARRAY_COUNT", "ARES_ARRAY_INDEX", "ARES_ARRAY_JOB_ID",
	"ARES_ATTEMPT", "ARES_CHECKPOINTED_AT", "ARES_CHECKPOINT_FILE", "ARES_CHECKPOINT_INTERVAL_MINUTES", "ARES_CHECKPOINT_PATH", "ARES_FENCING_TOKEN", "ARES_JOB_ID", "ARES_JOB_SOCKET", "ARES_NODE", "ARES_PROGRESS_FILE", "ARES_RANK", "ARES_WORLD_SIZE",
	"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT", "NVIDIA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE",
}

// Overridden returns those variables of the spec's environment that Ares replaces with its own values.
func (s Spec) Overridden() []string {
	var out []string
	for _, k := range ownVariables {
		if _, ok := s.Environment[k]; ok {
			out = append(out, k)
		}
	}
	return out
}
