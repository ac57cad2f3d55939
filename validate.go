package ares

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// These limits apply to one job. Every field that a user can send has a limit.
const (
	MaxSpecBytes      = 32 << 10 // size of the stored spec
	MaxNameBytes      = 253
	MaxRequestIDBytes = 256
	MaxMembers        = 2048
	MaxJobGPUs        = 16_384 // total of all members, so that a run's record stays small
	MaxGPUsPerMember  = 1024
	MaxCPUs           = 65_536
	MaxMemoryMB       = 1 << 30 // a pebibyte
	MaxArgs           = 1024
	MaxEnvironment    = 256
	MaxLabels         = 64
	MaxMinutes        = 60 * 24 * 366
	MaxRetriesLimit   = 1000
	MinLostAfterSec   = 10 // minimum for a tenant's default; the session TTL is the minimum for a job's own value
	MaxLostAfterSec   = 24 * 3600
	MaxGraceSec       = 3600
	MaxDataSets       = 64
	MinClusterLostSec = 60
	MaxClusterLostSec = 24 * 3600
)

var (
	strategies   = []string{"consolidated", "distributed", "balanced"}
	levels       = []string{"region", "zone", "spine", "leaf", "rack", "node", "numa"}
	numaPolicies = []string{"none", "preferred", "required"}
	accelerators = []string{"gpu", "tpu", "fpga", "custom"}
	retryReasons = []string{RetryOnFailure, RetryOnSignal, RetryOnTimeout}
)

// Check reports every mistake in a submitted spec. Each report names the field and says how to
// correct it.
func (s Spec) Check() error {
	var p Problems
	s.checkNames(&p)
	s.checkSizes(&p)
	s.checkProcess(&p)
	s.checkSecrets(&p)
	s.checkMounts(&p)
	s.checkCheckpointMount(&p)
	s.checkLife(&p)
	s.Start.check(&s, &p)
	s.checkNotify(&p)
	s.Placement().check(&p)
	s.Retry.check(&p)
	return p.Err()
}

func (s Spec) checkNames(p *Problems) {
	text(p, "request_id", s.RequestID, MaxRequestIDBytes)
	text(p, "name", s.Name, MaxNameBytes)
	name(p, "tenant_id", s.Tenant)
	name(p, "queue", s.Queue)
	pairs(p, "labels", s.Labels, MaxLabels)
	for i, id := range s.After {
		if !ValidJobID(id) {
			p.Add(fmt.Sprintf("after[%d]", i), "%q is not a job ID: use the job_id a submission answered with", id)
		}
	}
	if len(s.After) > MaxLabels {
		p.Add("after", "at most %d jobs, got %d", MaxLabels, len(s.After))
	}
}

func (s Spec) checkSizes(p *Problems) {
	between(p, "members", s.Members, 0, MaxMembers)
	between(p, "min_members", s.MinMembers, 0, max(s.Members, 1))
	between(p, "gpu_count", s.GPUs, 0, MaxGPUsPerMember)
	between(p, "gpu_milli", s.GPUMilli, 0, 1000)
	if total := max(s.Members, 1) * s.GPUs; total > MaxJobGPUs && s.Members <= MaxMembers && s.GPUs <= MaxGPUsPerMember {
		p.Add("gpu_count", "all members together may have at most %d GPUs, got %d", MaxJobGPUs, total)
	}
	between(p, "gpu_memory_mb", s.GPUMemoryMB, 0, MaxMemoryMB)
	between(p, "cpu_cores", s.CPUs, 0, MaxCPUs)
	between(p, "cpu_milli", int(s.CPUMilli), 0, 999)
	between(p, "memory_mb", s.MemoryMB, 0, MaxMemoryMB)
	between(p, "array.count", s.Array.Count, 0, MaxArrayCount)
	between(p, "array.parallelism", s.Array.Parallelism, 0, max(s.Array.Count, 1))
	if s.GPUs > 0 && s.GPUMilli > 0 {
		p.Add("gpu_milli", "give either gpu_count (whole devices) or gpu_milli (a share of one), not both")
	}
	oneOf(p, "accelerator_type", s.AcceleratorType, accelerators)
	oneOf(p, "numa_policy", s.NUMAPolicy, numaPolicies)
	text(p, "gpu_model", s.GPUModel, MaxNameBytes)
	text(p, "mig_profile", s.MIGProfile, MaxNameBytes)
	if s.Priority != nil {
		between(p, "priority", *s.Priority, 0, MaxPriority)
	}
	if s.PriorityClass != "" {
		if s.PriorityClass.Rank() < 0 {
			p.Add("priority_class", "%q is unknown: use one of %s", s.PriorityClass, joinNames(Classes()))
		} else if s.Priority != nil && ClassOf(*s.Priority) != s.PriorityClass {
			is := ""
			if _, level := LevelOf(*s.Priority); level {
				is = "beside a class, priority is no level from 0 to 4: "
			}
			p.Add("priority_class", "%spriority %d is class %s: leave one of the two out", is, *s.Priority, ClassOf(*s.Priority))
		}
	}
}

func (s Spec) checkProcess(p *Problems) {
	if len(s.Command) == 0 && (len(s.Args) == 0 || s.Image != "") {
		if s.Image == "" { // otherwise the image has a command
			p.Add("command", `is required: a list of strings such as ["python", "train.py"]`)
		}
	} else if s.Argv()[0] == "" {
		p.Add("command[0]", "the first word, the program, is empty")
	}
	if n := len(s.Command) + len(s.Args); n > MaxArgs {
		p.Add("args", "command and args together may have at most %d words, got %d", MaxArgs, n)
	}
	words(p, "command", s.Command)
	words(p, "args", s.Args)
	pairs(p, "environment", s.Environment, MaxEnvironment)
	text(p, "image", s.Image, 1024)
	text(p, "working_dir", s.WorkingDir, 4096)
	s.checkWorkingDir(p)
	s.checkNetwork(p)
	if s.Placement().ContainerRoot && s.Image == "" {
		p.Add("container_root", "needs an image: without one, the job runs as its user on the node itself; set image, or leave container_root out")
	}
}

// checkNetwork checks the network of the job's processes. Several ranks without a network could not reach each other.
func (s Spec) checkNetwork(p *Problems) {
	members, network := max(s.Members, s.MinMembers), s.Placement().Network
	switch {
	case network != "" && network != NetworkHost && network != NetworkNone:
		p.Add("network", "%q is unknown: use %s for the machine's network, or %s for no network", Clip(network), NetworkHost, NetworkNone)
	case network == NetworkNone && members > 1:
		p.Add("network", "%s is only for jobs with one member, because %d members could not reach each other: leave members out, or submit an array", NetworkNone, members)
	}
}

// checkWorkingDir checks the working directory. It is a path on the node, or a path inside the job's code.
func (s Spec) checkWorkingDir(p *Problems) {
	if s.CodeDigest == "" {
		if s.WorkingDir != "" && !strings.HasPrefix(s.WorkingDir, "/") {
			p.Add("working_dir", "%q is not absolute: start it with /, or take your directory along with --sync DIRECTORY, and give a path inside it", s.WorkingDir)
		}
		return
	}
	if len(s.CodeDigest) != 64 || strings.Trim(s.CodeDigest, "0123456789abcdef") != "" {
		p.Add("code_digest", "%q is not the digest of a snapshot: use the digest that CommitSnapshot returns, which has 64 hexadecimal digits", Clip(s.CodeDigest))
	}
	if strings.HasPrefix(s.WorkingDir, "/") || slices.Contains(strings.Split(s.WorkingDir, "/"), "..") {
		p.Add("working_dir", "%q is not a path inside the job's code: with --sync, the working directory is relative to the synced directory, such as src", s.WorkingDir)
	}
}

func (s Spec) checkLife(p *Problems) {
	between(p, "max_queue_minutes", s.MaxQueueMinutes, 0, MaxMinutes)
	between(p, "max_runtime_minutes", s.MaxRuntimeMinutes, 0, MaxMinutes)
	between(p, "checkpoint.interval_minutes", int(s.Checkpoint.IntervalMinutes), 0, MaxMinutes)
	text(p, "checkpoint.path", s.Checkpoint.Path, 4096)
	if s.GraceSeconds != nil {
		between(p, "grace_seconds", *s.GraceSeconds, 0, MaxGraceSec)
	}
	if s.LostAfterSeconds != 0 {
		between(p, "lost_after_seconds", s.LostAfterSeconds, 1, MaxLostAfterSec)
	}
	if y := s.Deadline.UTC().Year(); y < 1 || y > 9999 { // JSON allows only these years, so another deadline could not be shown or archived
		p.Add("deadline", "the year must be between 1 and 9999, got %d: leave deadline out for none", y)
	}
	if s.Mode != "" && s.Mode != Restart && s.Mode != AtMostOnce {
		p.Add("execution_mode", "%q is unknown: use %s or %s", s.Mode, Restart, AtMostOnce)
	}
	switch preemptible := s.Preemptible != nil && *s.Preemptible; {
	case preemptible && s.Mode == AtMostOnce:
		p.Add("preemptible", "a job with execution_mode %s cannot be stopped and run again: leave preemptible out, or use execution_mode %s", AtMostOnce, Restart)
	case preemptible && s.Placement().LatencySensitive:
		p.Add("preemptible", "a latency-sensitive job is preempted by critical jobs only: leave preemptible or placement.latency_sensitive out")
	}
}

func (pl Placement) check(p *Problems) {
	oneOf(p, "placement.strategy", pl.Strategy, strategies)
	oneOf(p, "placement.required_level", pl.RequiredLevel, levels)
	oneOf(p, "placement.preferred_level", pl.PreferredLevel, levels)
	text(p, "placement.preferred_domain", pl.PreferredDomain, MaxNameBytes)
	if pl.NetworkBandwidth != "" {
		if _, err := ParseBandwidth(pl.NetworkBandwidth); err != nil {
			p.Add("placement.network_bandwidth", "%s", err)
		}
	}
	pairs(p, "placement.node_selector", pl.NodeSelector, MaxLabels)
	pl.NodeRequirements.check(p, "placement.node_requirements")
	names(p, "placement.tolerations", pl.Tolerations)
	names(p, "placement.regions", pl.Regions)
	pl.checkClusters(p)
	each(p, "placement.tolerations", pl.Tolerations, ParseToleration)
	each(p, "placement.node_affinity", pl.NodeAffinity, ParseCondition)
	each(p, "placement.preferred_node_affinity", pl.PreferredNodeAffinity, ParseCondition)
	each(p, "placement.affinity", pl.Affinity, ParseNear)
	each(p, "placement.anti_affinity", pl.AntiAffinity, ParseNear)
	each(p, "placement.preferred_anti_affinity", pl.PreferredAntiAffinity, ParseNear)
}

// checkClusters checks the fields that concern the clusters of a federation.
func (pl Placement) checkClusters(p *Problems) {
	if len(pl.Clusters) > MaxLabels {
		p.Add("placement.clusters", "at most %d entries, got %d", MaxLabels, len(pl.Clusters))
	} else {
		for i, c := range pl.Clusters {
			if !ValidName(c) {
				p.Add(fmt.Sprintf("placement.clusters[%d]", i), "%q is not the name of a cluster: use up to 63 letters, digits, '-' and '_', first a letter or digit", Clip(c))
			}
		}
	}
	if len(pl.Data) > MaxDataSets {
		p.Add("data", "at most %d datasets, got %d", MaxDataSets, len(pl.Data))
	} else {
		for i := range pl.Data {
			pl.Data[i].check(p, fmt.Sprintf("data[%d]", i))
		}
	}
	oneOf(p, "on_partition", string(pl.OnPartition), []string{string(PartitionWait), string(PartitionFence)})
	switch s := pl.ClusterLostAfterSeconds; {
	case s != 0 && pl.OnPartition != PartitionFence:
		p.Add("cluster_lost_after_seconds", "it has an effect only with on_partition %s: set that, or leave it out", PartitionFence)
	case s == 0 && pl.OnPartition == PartitionFence:
		p.Add("cluster_lost_after_seconds", "on_partition %s needs it: the number of seconds, from %d to %d, after which another cluster may run the job", PartitionFence, MinClusterLostSec, MaxClusterLostSec)
	case s != 0:
		between(p, "cluster_lost_after_seconds", s, MinClusterLostSec, MaxClusterLostSec)
	}
}

func (d *DataSet) check(p *Problems, field string) {
	if d.URI == "" {
		p.Add(field+".uri", "is required: the place of the data, such as s3://bucket/path")
	}
	text(p, field+".uri", d.URI, 1024)
	text(p, field+".region", d.Region, MaxNameBytes)
	if d.Bytes < 0 {
		p.Add(field+".bytes", "must not be negative, got %d", d.Bytes)
	}
}

func (r RetryPolicy) check(p *Problems) {
	if r.MaxRetries != nil {
		between(p, "retry.max_retries", *r.MaxRetries, 0, MaxRetriesLimit)
	}
	seconds(p, "retry.initial_backoff_seconds", r.InitialBackoffSeconds)
	seconds(p, "retry.max_backoff_seconds", r.MaxBackoffSeconds)
	if m := r.Multiplier; math.IsNaN(m) || m != 0 && (m < 1 || m > 100) {
		p.Add("retry.multiplier", "must be between 1 and 100, got %v", m)
	}
	for _, reason := range r.RetryOn {
		oneOf(p, "retry.retry_on", reason, retryReasons)
	}
}

// ParseBandwidth reads "100Gb" or "100Gbps" as gigabits per second.
func ParseBandwidth(s string) (int, error) {
	var n int
	digits := strings.TrimSuffix(strings.TrimSuffix(s, "ps"), "Gb")
	if _, err := fmt.Sscanf(digits, "%d", &n); err != nil || n <= 0 || n > 100_000 || fmt.Sprint(n) != digits || !strings.Contains(s, "Gb") {
		return 0, fmt.Errorf("%q is not a bandwidth: use a number and a unit, for example 100Gb", s)
	}
	return n, nil
}

func between(p *Problems, field string, v, lo, hi int) {
	if v < lo || v > hi {
		p.Add(field, "must be between %d and %d, got %d", lo, hi, v)
	}
}

func seconds(p *Problems, field string, v float64) {
	if math.IsNaN(v) || v < 0 || v > 86_400 {
		p.Add(field, "must be between 0 and 86400, got %v", v)
	}
}

// This function checks strings that become command-line arguments.
func words(p *Problems, field string, list []string) {
	for i, w := range list {
		if strings.IndexByte(w, 0) >= 0 || !utf8.ValidString(w) {
			p.Add(fmt.Sprintf("%s[%d]", field, i), "holds a NUL byte or is not UTF-8")
		}
	}
}

func names(p *Problems, field string, list []string) {
	if len(list) > MaxLabels {
		p.Add(field, "at most %d entries, got %d", MaxLabels, len(list))
		return
	}
	for _, v := range list {
		text(p, field, v, MaxNameBytes)
	}
}

// This function checks every string in a list with the given parse function.
func each[T any](p *Problems, field string, list []string, parse func(string) (T, error)) {
	if len(list) > MaxLabels {
		p.Add(field, "at most %d entries, got %d", MaxLabels, len(list))
		return
	}
	for i, v := range list {
		if _, err := parse(v); err != nil {
			p.Add(fmt.Sprintf("%s[%d]", field, i), "%s", err)
		}
	}
}

func oneOf(p *Problems, field, v string, allowed []string) {
	if v != "" && !slices.Contains(allowed, v) {
		p.Add(field, "%q is unknown: use one of %s", Clip(v), strings.Join(allowed, ", "))
	}
}

func text(p *Problems, field, v string, limit int) {
	switch {
	case len(v) > limit:
		p.Add(field, "at most %d bytes, got %d", limit, len(v))
	case !utf8.ValidString(v):
		p.Add(field, "is not valid UTF-8")
	case strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }):
		p.Add(field, "holds a control character")
	}
}

// This function checks a string that becomes part of a key. The string may contain letters, digits,
// dot, dash and underscore.
func name(p *Problems, field, v string) {
	if v != "" && !ValidName(v) {
		p.Add(field, "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", Clip(v))
	}
}

// ValidName reports whether v is a valid name for a tenant, a queue or a node.
func ValidName(v string) bool {
	if v == "" || len(v) > 63 {
		return false
	}
	for i := range len(v) {
		c := v[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	return true
}

func pairs(p *Problems, field string, m map[string]string, limit int) {
	if len(m) > limit {
		p.Add(field, "at most %d entries, got %d: put many values into a file the job reads", limit, len(m))
		return
	}
	for k, v := range m {
		if !usableKey(k) {
			p.Add(field, "%q is not a usable key", Clip(k))
		}
		if strings.ContainsRune(v, 0) || !utf8.ValidString(v) {
			p.Add(field+"."+Clip(k), "the value holds a NUL byte or is not UTF-8")
		}
	}
}

// usableKey reports whether k may be the key of a label or the name of an environment variable.
func usableKey(k string) bool {
	return k != "" && len(k) <= MaxNameBytes && !strings.ContainsAny(k, "=\x00") && utf8.ValidString(k)
}
