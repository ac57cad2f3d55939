package ares

import (
	"slices"
	"strings"
)

// Explanation says why a job waits. An Explanation includes the job's position in the queue, its ETA and
// suggestions.
type Explanation struct {
	Refusal
	// Remedies are the smallest changes after which the engine's next plan places the job. Each remedy consists of one or two steps.
	// Remedies is empty when no such change is known.
	Remedies []Remedy
	Queue    string // the queue it waits in
	Rank     int    // its position in that queue, from 1; 0 when it is not queued
	Of       int    // jobs in that queue
	Order    string // which rule gives the job its position; "" when it is not queued
	Ahead    []Ahead
	Holders  []Holder
	ETA      ETA // ETA of a queued job
	// Hold says what it costs to hold nodes for the job. Hold is nil if nodes are never held for it.
	Hold *HoldOutlook
}

// Remedy is a list of steps that together allow a job to be placed.
type Remedy []Step

// Step is one suggested change, with its kind and all the data needed to apply it.
type Step struct {
	Kind   StepKind
	Target Ref    // the tenant, queue, job or nodes that it changes; empty for the job itself
	Field  string // the limit, the model of a quota, or the field of the job
	Amount int    // the amount, for steps that have one
	Value  string // the value to add to the job's field, if the field is not dropped
	// Jobs lists the jobs that must end. These job names are shown only to operators, because a
	// tenant may not see the names of other tenants' jobs.
	Jobs []JobID
	Text Text // for readers of the job's tenant
}

// StepKind is the kind of change that a step makes.
type StepKind string

// The steps.
const (
	StepWait     StepKind = "wait"           // wait for Amount milliseconds, until the delay ends
	StepSucceed  StepKind = "dependency"     // Target is the job that must succeed first
	StepPriority StepKind = "raise_priority" // raise the priority to Amount
	StepRelax    StepKind = "relax"          // drop Field of the job, or relax it to Amount or by adding Value
	StepShrink   StepKind = "fewer_members"  // run with Amount members instead
	StepLimit    StepKind = "raise_limit"    // raise the limit Field of Target by Amount
	StepQuota    StepKind = "raise_quota"    // raise Target's nominal quota of the model Field by Amount
	StepUncordon StepKind = "uncordon_node"  // Target is the node
	StepEnd      StepKind = "end_job"        // Target is a job that holds resources that this job needs
	StepFree     StepKind = "free_gpus"      // free Amount GPUs on the nodes of Target by ending Jobs
	StepNode     StepKind = "add_nodes"      // add Amount nodes like Target
)

// These are the API names of the limits that a step may raise.
const (
	LimitGPUs      = "max_gpus"
	LimitGPUMemory = "max_gpu_memory_mb"
	LimitCPUs      = "max_cpu_cores"
	LimitMemory    = "max_memory_mb"
	LimitJobs      = "max_concurrent_jobs"
	LimitGPUHours  = "gpu_hours_per_month"
)

// LimitNames are the names of the limits. They have the same order as the limits in Limits.Respects.
var LimitNames = [5]string{LimitGPUs, LimitGPUMemory, LimitCPUs, LimitMemory, LimitJobs}

// Raise raises the limit with the given name.
func (l *Limits) Raise(name string, by int) {
	for i, limit := range []*int{&l.GPUs, &l.GPUMemoryMB, &l.CPUs, &l.MemoryMB, &l.ConcurrentJobs} {
		if LimitNames[i] == name {
			*limit = min(*limit+by, Unlimited)
		}
	}
}

// Changed returns the job's spec after the step is applied. If a step does not change the job, Changed returns
// the spec unchanged.
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
	p := spec.EditPlacement()
	switch s.Field {
	case "after":
		spec.After = nil
	case "array.parallelism":
		spec.Array.Parallelism = s.Amount
	case "gpu_count":
		spec.GPUs = s.Amount
	case "cpu_cores":
		spec.CPUs, spec.CPUMilli = s.Amount, 0
	case "memory_mb":
		spec.MemoryMB = s.Amount
	case "gpu_model":
		spec.GPUModel = ""
	case "allow_mixed_models":
		spec.AllowMixedModels = true
	case "gpu_memory_mb":
		spec.GPUMemoryMB = 0
	case "mig_profile":
		spec.MIGProfile, spec.GPUs = "", max(spec.GPUs, 1) // a whole device instead of a slice
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

// Ahead counts the jobs ahead of this job in the queue. Only jobs of this job's own tenant are
// named.
type Ahead struct {
	Tenant string // "" for all other tenants together
	Jobs   int
	First  JobID // for its own tenant: the job directly ahead
}

// Holder is a job that uses devices which the waiting job could use. Only a limited number of nodes
// is searched for such jobs. Only jobs of the waiting job's own tenant are named.
type Holder struct {
	Tenant string // "" for all other tenants together
	Job    JobID  // "" for other tenants
	GPUs   int    // devices it holds, wholly or in part
	Nodes  int
}
