package policy

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Input contains the values that submission and placement policies read. The json
// tags contain the field names that expressions use. docs/guide/policy.md
// describes the fields.
type Input struct {
	Job    Job
	Tenant Tenant
	User   User
	Usage  Usage
	Now    time.Time
}

// Job is the submitted job with its defaults. The values of its environment
// variables are left out, because a policy's message could disclose them.
type Job struct {
	Name              string            `json:"name" doc:"its name"`
	Queue             string            `json:"queue" doc:"its queue"`
	Priority          int               `json:"priority" doc:"higher first; default 500"`
	PriorityClass     string            `json:"priority_class" doc:"best-effort, low, normal, high or critical"`
	Members           int               `json:"members" doc:"number of members"`
	MinMembers        int               `json:"min_members" doc:"fewest members of an attempt"`
	GPUCount          int               `json:"gpu_count" doc:"whole GPUs of each member"`
	GPUs              int               `json:"gpus" doc:"whole GPUs of all members; for an array, of one element"`
	GPUMilli          int               `json:"gpu_milli" doc:"share of one GPU of each member, in thousandths"`
	AcceleratorType   string            `json:"accelerator_type" doc:"default gpu"`
	GPUModel          string            `json:"gpu_model" doc:"requested model; empty for any"`
	AllowMixedModels  bool              `json:"allow_mixed_models" doc:"whether its members may have different GPU models"`
	MIGProfile        string            `json:"mig_profile" doc:"requested MIG profile; empty for none"`
	GPUMemoryMB       int               `json:"gpu_memory_mb" doc:"GPU memory of each member"`
	CPUCores          int               `json:"cpu_cores" doc:"of each member, rounded up"`
	MemoryMB          int               `json:"memory_mb" doc:"of each member"`
	Command           []string          `json:"command" doc:"command line with arguments"`
	Image             string            `json:"image" doc:"container image; empty for none"`
	Mounts            []string          `json:"mounts" doc:"what it mounts from its nodes, as SOURCE:TARGET or SOURCE:TARGET:ro"`
	Network           string            `json:"network" doc:"host, or none for no network"`
	ContainerRoot     bool              `json:"container_root" doc:"it is root in its image, in a user namespace"`
	Stdin             bool              `json:"stdin" doc:"users can write to its standard input"`
	TTY               bool              `json:"tty" doc:"it has a terminal, to which users can connect"`
	EnvironmentNames  []string          `json:"environment_names" doc:"names of its variables; policies cannot read the values"`
	WorkingDir        string            `json:"working_dir" doc:"working directory"`
	NodeSelector      map[string]string `json:"node_selector" doc:"required node labels"`
	NodeRequirements  []string          `json:"node_requirements" doc:"conditions on nodes, as text such as gpu.memory>=80G"`
	Regions           []string          `json:"regions" doc:"allowed regions; empty for any"`
	LatencySensitive  bool              `json:"latency_sensitive" doc:"one NUMA node for each member, no shared devices; only critical jobs preempt it"`
	HasDeadline       bool              `json:"has_deadline" doc:"whether it has a deadline"`
	Deadline          time.Time         `json:"deadline" doc:"deadline; far in the past if it has none"`
	MaxQueueMinutes   int               `json:"max_queue_minutes" doc:"longest time in the queue; 0 for unlimited"`
	MaxRuntimeMinutes int               `json:"max_runtime_minutes" doc:"longest time of an attempt; 0 for unlimited"`
	MaxRetries        int               `json:"max_retries" doc:"number of retries"`
	ExecutionMode     string            `json:"execution_mode" doc:"restart or at_most_once"`
	Checkpoints       bool              `json:"checkpoints" doc:"whether it saves checkpoints"`
	Preemptible       bool              `json:"preemptible" doc:"whether a shorter job of its queue and class may preempt it"`
	ArrayCount        int               `json:"array_count" doc:"elements of an array; 0 for a single job"`
	Labels            map[string]string `json:"labels" doc:"its labels"`
}

// Tenant is the tenant of the job.
type Tenant struct {
	ID           string  `json:"id" doc:"its ID"`
	Name         string  `json:"name" doc:"its name"`
	GPUHours     float64 `json:"gpu_hours" doc:"GPU-hours used this month (UTC), as of a second ago"`
	Quota        float64 `json:"quota" doc:"monthly budget of GPU-hours; infinite without a budget"`
	MaxGPUs      int     `json:"max_gpus" doc:"limit on allocated GPUs; 2147483647 if unlimited, as for the next two"`
	MaxJobs      int     `json:"max_jobs" doc:"limit on running jobs"`
	MaxPending   int     `json:"max_pending" doc:"limit on waiting jobs"`
	Weight       float64 `json:"weight" doc:"fair-share weight"`
	MayPreempt   bool    `json:"may_preempt" doc:"whether its jobs can preempt"`
	PriorityTier string  `json:"priority_tier" doc:"highest priority class of its jobs; empty for any"`
}

// Usage is the current usage of the tenant, without this job.
type Usage struct {
	GPUs         int `json:"gpus" doc:"allocated whole GPUs"`
	GPUMilli     int `json:"gpu_milli" doc:"allocated shares of GPUs, in thousandths"`
	GPUMemoryMB  int `json:"gpu_memory_mb" doc:"allocated GPU memory"`
	CPUCores     int `json:"cpu_cores" doc:"CPU cores"`
	MemoryMB     int `json:"memory_mb" doc:"memory"`
	Jobs         int `json:"jobs" doc:"running jobs"`
	Pending      int `json:"pending" doc:"waiting jobs"`
	QueueGPUs    int `json:"queue_gpus" doc:"allocated whole GPUs of the same queue"`
	QueueJobs    int `json:"queue_jobs" doc:"running jobs of the same queue"`
	QueuePending int `json:"queue_pending" doc:"waiting jobs of the same queue"`
}

// User is the caller.
type User struct {
	Name   string   `json:"name" doc:"such as token:ci or oidc:ann"`
	Kind   string   `json:"kind" doc:"token, oidc, cert, or hub for a user of the hub that this cluster has joined"`
	Tenant string   `json:"tenant" doc:"home tenant"`
	Groups []string `json:"groups" doc:"groups from the OpenID token"`
	Roles  []string `json:"roles" doc:"roles in any scope"`
}

// Access contains the values that access policies read.
type Access struct {
	User    User
	Request Request
	Object  Object
	Now     time.Time
}

// Request is the call.
type Request struct {
	Method  string `json:"method" doc:"such as ares.v1.JobService/CancelJob"`
	Service string `json:"service" doc:"such as JobService"`
	Action  string `json:"action" doc:"such as CancelJob"`
	Write   bool   `json:"write" doc:"true for a method that changes something"`
}

// Object is the object that the call names.
type Object struct {
	Kind   string `json:"kind" doc:"job, tenant, queue, node, reservation, policy …; empty if the call names none"`
	ID     string `json:"id" doc:"name or ID in the request"`
	Tenant string `json:"tenant" doc:"tenant of the object; empty if it has none or is unknown"`
}

// NewJob converts a submission to the form that policies read.
func NewJob(said ares.Spec) Job {
	s := said.WithDefaults()
	p := s.Placement()
	j := Job{
		Name: s.Name, Queue: s.Queue, Priority: s.PriorityValue(), PriorityClass: string(s.PriorityClass), Members: s.Members, MinMembers: s.MinMembers,
		GPUCount: s.GPUs, GPUs: s.TotalGPUs(), GPUMilli: s.GPUMilli, AcceleratorType: s.AcceleratorType, GPUModel: s.GPUModel, AllowMixedModels: s.AllowMixedModels, MIGProfile: s.MIGProfile,
		GPUMemoryMB: s.GPUMemoryMB, CPUCores: ares.RoundUpCPUs(s.MilliCPUs()), MemoryMB: s.MemoryMB, Command: s.Argv(), Image: s.Image,
		Network: cmp.Or(p.Network, ares.NetworkHost), Stdin: p.Stdin, TTY: p.TTY, ContainerRoot: p.ContainerRoot,
		EnvironmentNames: slices.Sorted(maps.Keys(s.Environment)), WorkingDir: s.WorkingDir, NodeSelector: p.NodeSelector,
		NodeRequirements: p.NodeRequirements.Strings(),
		Regions:          p.Regions, LatencySensitive: p.LatencySensitive, HasDeadline: !s.Deadline.IsZero(), Deadline: s.Deadline,
		MaxQueueMinutes: s.MaxQueueMinutes, MaxRuntimeMinutes: s.MaxRuntimeMinutes, ExecutionMode: string(s.Mode), Checkpoints: s.Checkpoint.Enabled,
		Preemptible: s.IsPreemptible(), ArrayCount: s.Array.Count, Labels: s.Labels,
	}
	for _, m := range p.Mounts {
		j.Mounts = append(j.Mounts, m.String())
	}
	if s.Retry.MaxRetries != nil {
		j.MaxRetries = *s.Retry.MaxRetries
	}
	return j
}

// NewTenant converts a tenant to the form that policies read.
func NewTenant(t *ares.Tenant, gpuHours float64) Tenant {
	out := Tenant{
		ID: t.ID, Name: t.Name, GPUHours: gpuHours, Quota: math.Inf(1), MaxGPUs: t.Limits.GPUs, MaxJobs: t.Limits.ConcurrentJobs,
		MaxPending: t.Limits.PendingJobs, Weight: t.Weight, MayPreempt: t.MayPreempt, PriorityTier: string(t.PriorityTier),
	}
	if t.GPUHours > 0 {
		out.Quota = float64(t.GPUHours)
	}
	return out
}

// NewUsage converts the usage of a tenant and of the job's queue to the form that
// policies read.
func NewUsage(tenant ares.Use, pending int, queue ares.Use, queuePending int) Usage {
	return Usage{
		GPUs: tenant.GPUs, GPUMilli: tenant.GPUMilli, GPUMemoryMB: tenant.GPUMemoryMB, CPUCores: tenant.WholeCPUs(), MemoryMB: tenant.MemoryMB,
		Jobs: tenant.Jobs, Pending: pending, QueueGPUs: queue.GPUs, QueueJobs: queue.Jobs, QueuePending: queuePending,
	}
}

// NewUser converts a caller's identity to the form that policies read.
func NewUser(id *ares.Identity) User {
	u := User{Name: id.Name, Kind: string(id.Kind), Tenant: id.Tenant, Groups: id.Groups}
	for _, b := range id.Bindings {
		if !slices.Contains(u.Roles, string(b.Role)) {
			u.Roles = append(u.Roles, string(b.Role))
		}
	}
	slices.Sort(u.Roles)
	return u
}
