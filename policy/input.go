package policy

import (
	"maps"
	"math"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Input is what policies on submission and placement see. The names in the tags
// are those that expressions use, the texts are for people: docs/policy.md has
// them.
type Input struct {
	Job    Job
	Tenant Tenant
	User   User
	Usage  Usage
	Now    time.Time
}

// Job is what is submitted, with its defaults filled in. The values of its
// environment are not there: a message could carry them anywhere.
type Job struct {
	Name              string            `json:"name" doc:"its name"`
	Queue             string            `json:"queue" doc:"its queue"`
	Priority          int               `json:"priority" doc:"higher first, 500 unless said"`
	PriorityClass     string            `json:"priority_class" doc:"best-effort, low, normal, high or critical"`
	Members           int               `json:"members" doc:"how many members it has"`
	MinMembers        int               `json:"min_members" doc:"with how many it may start"`
	GPUCount          int               `json:"gpu_count" doc:"whole GPUs of each member"`
	GPUs              int               `json:"gpus" doc:"whole GPUs of all members; of an array, of one element"`
	GPUMilli          int               `json:"gpu_milli" doc:"share of one GPU of each member, in thousandths"`
	AcceleratorType   string            `json:"accelerator_type" doc:"gpu unless said"`
	GPUModel          string            `json:"gpu_model" doc:"the model it asks for, empty for any"`
	MIGProfile        string            `json:"mig_profile" doc:"the slice it asks for, empty for none"`
	GPUMemoryMB       int               `json:"gpu_memory_mb" doc:"GPU memory of each member"`
	CPUCores          int               `json:"cpu_cores" doc:"of each member"`
	MemoryMB          int               `json:"memory_mb" doc:"of each member"`
	Command           []string          `json:"command" doc:"the command line, arguments included"`
	Image             string            `json:"image" doc:"container image, empty for none"`
	EnvironmentNames  []string          `json:"environment_names" doc:"names of its variables; the values are not to be seen"`
	WorkingDir        string            `json:"working_dir" doc:"where it is started"`
	NodeSelector      map[string]string `json:"node_selector" doc:"labels it asks of nodes"`
	NodeRequirements  []string          `json:"node_requirements" doc:"conditions on nodes, each as text such as gpu.memory>=80G"`
	Regions           []string          `json:"regions" doc:"where it may run, empty for anywhere"`
	LatencySensitive  bool              `json:"latency_sensitive" doc:"no shared devices, never a victim"`
	HasDeadline       bool              `json:"has_deadline" doc:"whether it has one"`
	Deadline          time.Time         `json:"deadline" doc:"when it should have ended; far in the past without one"`
	MaxQueueMinutes   int               `json:"max_queue_minutes" doc:"how long it waits at most, 0 for any time"`
	MaxRuntimeMinutes int               `json:"max_runtime_minutes" doc:"how long it runs at most, 0 for any time"`
	MaxRetries        int               `json:"max_retries" doc:"how often it is tried again"`
	ExecutionMode     string            `json:"execution_mode" doc:"restart or at_most_once"`
	Checkpoints       bool              `json:"checkpoints" doc:"whether it saves its state"`
	ArrayCount        int               `json:"array_count" doc:"elements of an array, 0 of a single job"`
	Labels            map[string]string `json:"labels" doc:"its labels"`
}

// Tenant is whose job it is.
type Tenant struct {
	ID           string  `json:"id" doc:"its ID"`
	Name         string  `json:"name" doc:"its name"`
	GPUHours     float64 `json:"gpu_hours" doc:"GPU-hours its jobs have used this month (UTC), as of a second ago"`
	Quota        float64 `json:"quota" doc:"GPU-hours it may use in a month; infinite without a budget"`
	MaxGPUs      int     `json:"max_gpus" doc:"GPUs it may hold at once; 2147483647 without a limit, as the next two"`
	MaxJobs      int     `json:"max_jobs" doc:"jobs it may run at once"`
	MaxPending   int     `json:"max_pending" doc:"jobs it may have waiting"`
	Weight       float64 `json:"weight" doc:"its share against other tenants"`
	MayPreempt   bool    `json:"may_preempt" doc:"whether its jobs may stop others"`
	PriorityTier string  `json:"priority_tier" doc:"the highest class its jobs may have, empty for any"`
}

// Usage is what the tenant holds now, this job not counted.
type Usage struct {
	GPUs         int `json:"gpus" doc:"whole GPUs that its jobs hold"`
	GPUMilli     int `json:"gpu_milli" doc:"shares of GPUs, in thousandths"`
	GPUMemoryMB  int `json:"gpu_memory_mb" doc:"GPU memory that its jobs asked for"`
	CPUCores     int `json:"cpu_cores" doc:"CPU cores"`
	MemoryMB     int `json:"memory_mb" doc:"memory"`
	Jobs         int `json:"jobs" doc:"jobs that hold something"`
	Pending      int `json:"pending" doc:"jobs that wait"`
	QueueGPUs    int `json:"queue_gpus" doc:"whole GPUs that jobs of the same queue hold"`
	QueueJobs    int `json:"queue_jobs" doc:"jobs of the same queue that hold something"`
	QueuePending int `json:"queue_pending" doc:"jobs of the same queue that wait"`
}

// User is who calls.
type User struct {
	Name   string   `json:"name" doc:"such as token:ci or oidc:ann"`
	Kind   string   `json:"kind" doc:"token, oidc or cert"`
	Tenant string   `json:"tenant" doc:"the tenant it is at home in"`
	Groups []string `json:"groups" doc:"groups that its issuer names"`
	Roles  []string `json:"roles" doc:"roles it has anywhere"`
}

// Access is what policies on access see.
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
	Write   bool   `json:"write" doc:"whether it changes something"`
}

// Object is what the call is about.
type Object struct {
	Kind   string `json:"kind" doc:"job, tenant, queue, node, reservation, policy …; empty where the call names none"`
	ID     string `json:"id" doc:"its name or ID as the caller gave it"`
	Tenant string `json:"tenant" doc:"whose it is; empty where it is nobody's or not known"`
}

// NewJob is a submission as policies see it.
func NewJob(said ares.Spec) Job {
	s := said.WithDefaults()
	j := Job{
		Name: s.Name, Queue: s.Queue, Priority: s.PriorityValue(), PriorityClass: string(s.PriorityClass), Members: s.Members, MinMembers: s.MinMembers,
		GPUCount: s.GPUs, GPUs: s.TotalGPUs(), GPUMilli: s.GPUMilli, AcceleratorType: s.AcceleratorType, GPUModel: s.GPUModel, MIGProfile: s.MIGProfile,
		GPUMemoryMB: s.GPUMemoryMB, CPUCores: s.CPUs, MemoryMB: s.MemoryMB, Command: s.Argv(), Image: s.Image,
		EnvironmentNames: slices.Sorted(maps.Keys(s.Environment)), WorkingDir: s.WorkingDir, NodeSelector: s.Placement.NodeSelector,
		NodeRequirements: s.Placement.NodeRequirements.Strings(),
		Regions:          s.Placement.Regions, LatencySensitive: s.Placement.LatencySensitive, HasDeadline: !s.Deadline.IsZero(), Deadline: s.Deadline,
		MaxQueueMinutes: s.MaxQueueMinutes, MaxRuntimeMinutes: s.MaxRuntimeMinutes, ExecutionMode: string(s.Mode), Checkpoints: s.Checkpoint.Enabled,
		ArrayCount: s.Array.Count, Labels: s.Labels,
	}
	if s.Retry.MaxRetries != nil {
		j.MaxRetries = *s.Retry.MaxRetries
	}
	return j
}

// NewTenant is a tenant as policies see it.
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

// NewUsage is what a tenant, and in it the job's queue, holds.
func NewUsage(tenant ares.Use, pending int, queue ares.Use, queuePending int) Usage {
	return Usage{
		GPUs: tenant.GPUs, GPUMilli: tenant.GPUMilli, GPUMemoryMB: tenant.GPUMemoryMB, CPUCores: tenant.CPUs, MemoryMB: tenant.MemoryMB,
		Jobs: tenant.Jobs, Pending: pending, QueueGPUs: queue.GPUs, QueueJobs: queue.Jobs, QueuePending: queuePending,
	}
}

// NewUser is a caller as policies see it.
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
