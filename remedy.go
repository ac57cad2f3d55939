package ares

import (
	"slices"
	"strings"
)

// Explanation is everything that can be said of a waiting job.
type Explanation struct {
	Refusal
	// Remedies are the smallest changes that would put the job into the next
	// plan, each by itself: one change or a pair. None is known when it is empty.
	Remedies []Remedy
	Queue    string // where it waits
	Rank     int    // its place in that queue, from 1; 0 when it is not in line
	Of       int    // jobs in line in that queue
	Ahead    []Ahead
	Holders  []Holder
	ETA      ETA // of one in line
}

// Remedy is what to do, all of it, to get a job placed.
type Remedy []Step

// Step is one change from a closed list. It says all that is needed to make it.
type Step struct {
	Kind   StepKind
	Target string // what it is about: a tenant, queue (tenant/name), node or job
	Field  string // the limit, the model of a quota, or the field of the job
	Amount int    // how much, where that can be said
	Value  string // of a field of the job, where it is not dropped: what to add
	// Jobs are those that have to end. Their names are for operators: a tenant
	// is not told those of others.
	Jobs []JobID
	Text string // for people of the job's tenant
}

// StepKind says what a step changes.
type StepKind string

// The steps.
const (
	StepWait     StepKind = "wait"           // Amount milliseconds, until the delay ends
	StepSucceed  StepKind = "dependency"     // Target is the job that must succeed first
	StepPriority StepKind = "raise_priority" // to Amount
	StepRelax    StepKind = "relax"          // Field of the job is dropped, or becomes Amount or more by Value
	StepShrink   StepKind = "fewer_members"  // Amount members instead
	StepLimit    StepKind = "raise_limit"    // Field of Target's limits by Amount
	StepQuota    StepKind = "raise_quota"    // Target's nominal quota of model Field by Amount
	StepUncordon StepKind = "uncordon_node"  // Target is the node
	StepEnd      StepKind = "end_job"        // Target is a job that holds what is needed
	StepFree     StepKind = "free_gpus"      // Amount GPUs on the nodes of Target come free: Jobs end
	StepNode     StepKind = "add_nodes"      // Amount more nodes like Target
)

// The limits a step may raise, by the names of the API.
const (
	LimitGPUs      = "max_gpus"
	LimitGPUMemory = "max_gpu_memory_mb"
	LimitCPUs      = "max_cpu_cores"
	LimitMemory    = "max_memory_mb"
	LimitJobs      = "max_concurrent_jobs"
	LimitGPUHours  = "gpu_hours_per_month"
)

// LimitNames are the names of limits in the order of Limits.Respects.
var LimitNames = [5]string{LimitGPUs, LimitGPUMemory, LimitCPUs, LimitMemory, LimitJobs}

// Raise raises a limit by its name.
func (l *Limits) Raise(name string, by int) {
	for i, limit := range []*int{&l.GPUs, &l.GPUMemoryMB, &l.CPUs, &l.MemoryMB, &l.ConcurrentJobs} {
		if LimitNames[i] == name {
			*limit = min(*limit+by, Unlimited)
		}
	}
}

// Changed is a job's spec after the step, as its owner would submit it instead.
// Steps about anything else leave it alone.
func (s Step) Changed(spec Spec) Spec {
	switch s.Kind {
	case StepPriority:
		spec.Priority, spec.PriorityClass = new(s.Amount), ClassOf(s.Amount)
	case StepShrink:
		spec.Members, spec.MinMembers = s.Amount, min(spec.MinMembers, s.Amount)
	case StepRelax:
		s.relax(&spec)
	default:
	}
	return spec
}

func (s Step) relax(spec *Spec) {
	p := &spec.Placement
	switch s.Field {
	case "after":
		spec.After = nil
	case "array.parallelism":
		spec.Array.Parallelism = s.Amount
	case "gpu_count":
		spec.GPUs = s.Amount
	case "cpu_cores":
		spec.CPUs = s.Amount
	case "memory_mb":
		spec.MemoryMB = s.Amount
	case "gpu_model":
		spec.GPUModel = ""
	case "gpu_memory_mb":
		spec.GPUMemoryMB = 0
	case "mig_profile":
		spec.MIGProfile, spec.GPUs = "", max(spec.GPUs, 1) // a whole device for a slice
	case "numa_policy":
		spec.NUMAPolicy = "none"
	case "placement.required_level":
		p.RequiredLevel = ""
	case "placement.network_bandwidth":
		p.NetworkBandwidth = ""
	case "placement.latency_sensitive":
		p.LatencySensitive = false
	case "placement.node_selector":
		p.NodeSelector = nil
	case "placement.node_affinity":
		p.NodeAffinity = nil
	case "placement.node_requirements":
		p.NodeRequirements = nil
	case "placement.affinity":
		p.Affinity = nil
	case "placement.anti_affinity":
		p.AntiAffinity = nil
	case "placement.regions":
		p.Regions = nil
	case "placement.tolerations":
		p.Tolerations = append(slices.Clone(p.Tolerations), strings.Split(s.Value, ",")...)
	}
}

// Ahead counts jobs before this one in the order. Only those of its own tenant
// are named.
type Ahead struct {
	Tenant string // "" for other tenants together
	Jobs   int
	First  JobID // of its own tenant: the next in line
}

// Holder is who holds devices the job could use, on the nodes that come nearest
// to having room. Only those of its own tenant are named.
type Holder struct {
	Tenant string // "" for other tenants together
	Job    JobID  // "" for other tenants
	GPUs   int    // wholly or in part
	Nodes  int
}
