package apipb

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
)

// Spec translates a job's specification from its wire form.
func (m *JobSpec) Spec() ares.Spec {
	if m == nil {
		return ares.Spec{}
	}
	return ares.Spec{
		RequestID: m.RequestId, Name: m.Name, Tenant: m.TenantId, Queue: m.Queue,
		Priority: intPtr(m.Priority), PriorityClass: ares.Class(m.PriorityClass),
		Members: int(m.Members), GPUs: int(m.GpuCount), GPUMilli: int(m.GpuMilli),
		AcceleratorType: m.AcceleratorType, GPUModel: m.GpuModel, AllowMixedModels: m.AllowMixedModels, MIGProfile: m.MigProfile,
		GPUMemoryMB: int(m.GpuMemoryMb), CPUs: int(m.CpuCores), CPUMilli: m.CpuMilli, MemoryMB: int(m.MemoryMb), NUMAPolicy: m.NumaPolicy,
		Command: m.Command, Args: m.Args, Image: m.Image, Environment: m.Environment, WorkingDir: m.WorkingDir, CodeDigest: m.CodeDigest,
		Gang: m.GangScheduling, MinMembers: int(m.MinMembers), Constraints: m.constraints(),
		Deadline: Time(m.Deadline), MaxQueueMinutes: int(m.MaxQueueMinutes), MaxRuntimeMinutes: int(m.MaxRuntimeMinutes),
		Retry: m.Retry.policy(), Mode: ares.Mode(m.ExecutionMode), LostAfterSeconds: int(m.LostAfterSeconds),
		GraceSeconds: intPtr(m.GraceSeconds), Checkpoint: m.Checkpoint.checkpoint(), Preemptible: m.Preemptible, After: m.After,
		Array:  ares.Array{Count: int(m.GetArray().GetCount()), Parallelism: int(m.GetArray().GetParallelism())},
		Labels: m.Labels, Secrets: m.secrets(), Start: m.Start.conditions(), Notify: m.Notify,
	}
}

// The method `conditions` translates start conditions from their wire form. A dependency that cannot be parsed is kept as a
// type that Spec.Check reports.
func (m *StartConditions) conditions() *ares.StartConditions {
	if m == nil {
		return nil
	}
	out := &ares.StartConditions{Hold: m.Hold, Begin: Time(m.Begin), Unmet: ares.UnmetPolicy(m.UnmetDependency)}
	for _, text := range m.Dependencies {
		list, err := ares.ParseDependencies(text)
		if err != nil {
			list = []ares.Dependency{{Type: ares.DependencyType(text)}}
		}
		out.Dependencies = append(out.Dependencies, list...)
	}
	return out
}

// newStartConditions returns nil if no start condition is set.
func newStartConditions(c *ares.StartConditions) *StartConditions {
	if c == nil {
		return nil
	}
	out := &StartConditions{Hold: c.Hold, Begin: Timestamp(c.Begin), UnmetDependency: string(c.Unmet)}
	for _, d := range c.Dependencies {
		out.Dependencies = append(out.Dependencies, d.String())
	}
	return out
}

// The method `constraints` returns nil if no option of the placement or of the federation is set, and there are no mounts.
func (m *JobSpec) constraints() *ares.Placement {
	p := m.Placement.placement()
	if len(m.Data) == 0 && m.OnPartition == "" && m.ClusterLostAfterSeconds == 0 && len(m.Mounts) == 0 && m.Network == "" && !m.Stdin && !m.Tty && !m.ContainerRoot {
		return p
	}
	if p == nil {
		p = &ares.Placement{}
	}
	for _, d := range m.Data {
		p.Data = append(p.Data, ares.DataSet{URI: d.GetUri(), Region: d.GetRegion(), Bytes: d.GetBytes()})
	}
	for _, x := range m.Mounts {
		p.Mounts = append(p.Mounts, ares.Mount{Source: x.GetSource(), Target: x.GetTarget(), ReadOnly: x.GetReadOnly()})
	}
	p.OnPartition, p.ClusterLostAfterSeconds = ares.PartitionPolicy(m.OnPartition), int(m.ClusterLostAfterSeconds)
	p.Network, p.Stdin, p.TTY, p.ContainerRoot = m.Network, m.Stdin, m.Tty, m.ContainerRoot
	return p
}

// The method `placement` returns nil if no placement option is set.
func (m *Placement) placement() *ares.Placement {
	if m == nil {
		return nil
	}
	p := &ares.Placement{
		Clusters: m.Clusters,
		Strategy: m.Strategy, RequiredLevel: m.RequiredLevel, PreferredLevel: m.PreferredLevel,
		PreferredDomain: m.PreferredDomain, NetworkBandwidth: m.NetworkBandwidth, LatencySensitive: m.LatencySensitive,
		NodeSelector: m.NodeSelector, Tolerations: m.Tolerations, Regions: m.Regions,
		NodeAffinity: m.NodeAffinity, PreferredNodeAffinity: m.PreferredNodeAffinity,
		Affinity: m.Affinity, AntiAffinity: m.AntiAffinity, PreferredAntiAffinity: m.PreferredAntiAffinity, NodeRequirements: Requirements(m.NodeRequirements),
	}
	if p.IsZero() {
		return nil
	}
	return p
}

// Requirements translates node-selection conditions from their wire form. For
// an empty list, Requirements returns nil.
func Requirements(list []*NodeRequirement) ares.NodeRequirements {
	var out ares.NodeRequirements
	for _, r := range list {
		out = append(out, ares.NodeRequirement{Key: r.GetKey(), Operator: ares.RequirementOperator(r.GetOperator()), Values: r.GetValues()})
	}
	return out
}

// NewRequirements translates node-selection conditions into their wire form.
func NewRequirements(list ares.NodeRequirements) []*NodeRequirement {
	var out []*NodeRequirement
	for _, r := range list {
		out = append(out, &NodeRequirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
	return out
}

func (m *RetryPolicy) policy() ares.RetryPolicy {
	if m == nil {
		return ares.RetryPolicy{}
	}
	return ares.RetryPolicy{
		MaxRetries: intPtr(m.MaxRetries), InitialBackoffSeconds: m.InitialBackoffSeconds,
		Multiplier: m.Multiplier, MaxBackoffSeconds: m.MaxBackoffSeconds, RetryOn: m.RetryOn,
	}
}

func (m *Checkpoint) checkpoint() ares.Checkpoint {
	if m == nil {
		return ares.Checkpoint{}
	}
	return ares.Checkpoint{Enabled: m.Enabled, IntervalMinutes: m.IntervalMinutes, Path: m.Path}
}

// NewJobSpec translates a spec into its wire form. The result shares slices and
// maps with s, so the caller must change neither the result nor s.
func NewJobSpec(s *ares.Spec) *JobSpec {
	m := &JobSpec{
		RequestId: s.RequestID, Name: s.Name, TenantId: s.Tenant, Queue: s.Queue,
		Priority: int32Ptr(s.Priority), PriorityClass: string(s.PriorityClass),
		Members: int32(s.Members), GpuCount: int32(s.GPUs), GpuMilli: int32(s.GPUMilli),
		AcceleratorType: s.AcceleratorType, GpuModel: s.GPUModel, AllowMixedModels: s.AllowMixedModels, MigProfile: s.MIGProfile,
		GpuMemoryMb: int32(s.GPUMemoryMB), CpuCores: int32(s.CPUs), CpuMilli: s.CPUMilli, MemoryMb: int32(s.MemoryMB), NumaPolicy: s.NUMAPolicy,
		Command: s.Command, Args: s.Args, Image: s.Image, Environment: s.Environment, WorkingDir: s.WorkingDir, CodeDigest: s.CodeDigest,
		GangScheduling: s.Gang, MinMembers: int32(s.MinMembers),
		Deadline: Timestamp(s.Deadline), MaxQueueMinutes: int32(s.MaxQueueMinutes), MaxRuntimeMinutes: int32(s.MaxRuntimeMinutes),
		ExecutionMode: string(s.Mode), LostAfterSeconds: int32(s.LostAfterSeconds),
		GraceSeconds: int32Ptr(s.GraceSeconds), Preemptible: s.Preemptible, After: s.After, Labels: s.Labels,
		Placement: newPlacement(s.Placement()), Retry: newRetryPolicy(&s.Retry), Secrets: newSecretRefs(s.Secrets), Start: newStartConditions(s.Start), Notify: s.Notify,
	}
	if s.Checkpoint != (ares.Checkpoint{}) {
		m.Checkpoint = &Checkpoint{Enabled: s.Checkpoint.Enabled, IntervalMinutes: s.Checkpoint.IntervalMinutes, Path: s.Checkpoint.Path}
	}
	if s.Array != (ares.Array{}) {
		m.Array = &Array{Count: int32(s.Array.Count), Parallelism: int32(s.Array.Parallelism)}
	}
	if p := s.Constraints; p != nil {
		for _, d := range p.Data {
			m.Data = append(m.Data, &DataSet{Uri: d.URI, Region: d.Region, Bytes: d.Bytes})
		}
		for _, x := range p.Mounts {
			m.Mounts = append(m.Mounts, &Mount{Source: x.Source, Target: x.Target, ReadOnly: x.ReadOnly})
		}
		m.OnPartition, m.ClusterLostAfterSeconds, m.Network = string(p.OnPartition), int32(p.ClusterLostAfterSeconds), p.Network
		m.Stdin, m.Tty, m.ContainerRoot = p.Stdin, p.TTY, p.ContainerRoot
	}
	return m
}

// newPlacement returns nil if no placement option is set.
func newPlacement(p ares.Placement) *Placement {
	if p.Strategy == "" && p.RequiredLevel == "" && p.PreferredLevel == "" && p.PreferredDomain == "" && p.NetworkBandwidth == "" &&
		!p.LatencySensitive && p.NodeSelector == nil && p.Tolerations == nil && p.Regions == nil &&
		p.NodeAffinity == nil && p.PreferredNodeAffinity == nil && p.Affinity == nil && p.AntiAffinity == nil &&
		p.PreferredAntiAffinity == nil && len(p.NodeRequirements) == 0 && p.Clusters == nil {
		return nil
	}
	return &Placement{
		Clusters: p.Clusters,
		Strategy: p.Strategy, RequiredLevel: p.RequiredLevel, PreferredLevel: p.PreferredLevel,
		PreferredDomain: p.PreferredDomain, NetworkBandwidth: p.NetworkBandwidth, LatencySensitive: p.LatencySensitive,
		NodeSelector: p.NodeSelector, Tolerations: p.Tolerations, Regions: p.Regions,
		NodeAffinity: p.NodeAffinity, PreferredNodeAffinity: p.PreferredNodeAffinity,
		Affinity: p.Affinity, AntiAffinity: p.AntiAffinity, PreferredAntiAffinity: p.PreferredAntiAffinity, NodeRequirements: NewRequirements(p.NodeRequirements),
	}
}

func newRetryPolicy(r *ares.RetryPolicy) *RetryPolicy {
	if r.MaxRetries == nil && r.InitialBackoffSeconds == 0 && r.Multiplier == 0 && r.MaxBackoffSeconds == 0 && r.RetryOn == nil {
		return nil
	}
	return &RetryPolicy{
		MaxRetries: int32Ptr(r.MaxRetries), InitialBackoffSeconds: r.InitialBackoffSeconds,
		Multiplier: r.Multiplier, MaxBackoffSeconds: r.MaxBackoffSeconds, RetryOn: r.RetryOn,
	}
}

// Time converts a protobuf timestamp to a time. A missing timestamp becomes the
// zero time.
func Time(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// Timestamp converts a time to a protobuf timestamp. The zero time becomes a
// missing timestamp.
func Timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Node translates a machine's description from its wire form.
func (m *NodeInfo) Node() ares.Node {
	n := ares.Node{
		ID: m.GetNodeId(), Address: m.GetAddress(), CPUs: int(m.GetCpuCores()), CPUMilli: int(m.GetCpuMilli()), MemoryMB: int(m.GetMemoryMb()),
		Labels: m.GetLabels(), Mock: m.GetMock(), Contains: m.GetContains(), Version: m.GetVersion(),
		Isolation: m.GetIsolation(), Unfit: m.GetUnfit(), SessionTTL: time.Duration(m.GetSessionTtlSeconds()) * time.Second,
		ClockAhead: time.Duration(m.GetClockAheadMs()) * time.Millisecond, SessionCut: m.GetSessionCut(), TrustedOnly: m.GetTrustedOnly(), Images: m.GetImages(), NoImages: m.GetNoImages(),
		JobsOutliveSession: m.GetJobsOutliveSession(), OwnNetwork: m.GetOwnNetwork(), Attachable: m.GetAttachable(), ContainerRoot: m.GetContainerRoot(), NoContainerRoot: m.GetNoContainerRoot(),
	}
	for _, d := range m.GetDevices() {
		n.Devices = append(n.Devices, ares.Device{
			ID: d.DeviceId, Index: int(d.Index), Type: d.Type, Model: d.Model, MemoryMB: int(d.MemoryMb),
			NUMA: int(d.Numa), Parent: d.Parent, Profile: d.Profile, Healthy: d.Healthy, Reason: d.Reason,
			Celsius: int(d.Celsius),
		})
	}
	n.Links = Links(m.GetLinks())
	for _, p := range m.GetNuma() {
		n.NUMA = append(n.NUMA, ares.NUMANode{ID: int(p.GetId()), CPUs: int(p.GetCpuCores()), CPUMilli: int(p.GetCpuMilli()), MemoryMB: int(p.GetMemoryMb())})
	}
	for _, t := range m.GetTaints() {
		n.Taints = append(n.Taints, ares.Taint{Key: t.GetKey(), Value: t.GetValue(), Effect: ares.Effect(t.GetEffect())})
	}
	return n
}

// NewNodeInfo translates a node into its wire form.
func NewNodeInfo(n *ares.Node) *NodeInfo {
	m := &NodeInfo{
		NodeId: n.ID, Address: n.Address, CpuCores: int32(n.CPUs), CpuMilli: int32(n.CPUMilli), MemoryMb: int32(n.MemoryMB),
		Labels: n.Labels, Mock: n.Mock, Contains: n.Contains, Version: n.Version,
		Isolation: n.Isolation, Unfit: n.Unfit, SessionTtlSeconds: int32(n.SessionTTL / time.Second),
		ClockAheadMs: int32(n.ClockAhead / time.Millisecond), SessionCut: n.SessionCut, TrustedOnly: n.TrustedOnly, Images: n.Images, NoImages: n.NoImages,
		JobsOutliveSession: n.JobsOutliveSession, OwnNetwork: n.OwnNetwork, Attachable: n.Attachable, ContainerRoot: n.ContainerRoot, NoContainerRoot: n.NoContainerRoot, Numa: NewNUMANodes(n.NUMA), Taints: NewTaints(n.Taints),
	}
	for _, d := range n.Devices {
		m.Devices = append(m.Devices, &DeviceInfo{
			DeviceId: d.ID, Index: int32(d.Index), Type: d.Type, Model: d.Model, MemoryMb: int32(d.MemoryMB),
			Numa: int32(d.NUMA), Parent: d.Parent, Profile: d.Profile, Healthy: d.Healthy, Reason: d.Reason,
			Celsius: int32(d.Celsius),
		})
	}
	m.Links = NewLinks(n.Links)
	return m
}

// NewNUMANodes translates a machine's NUMA nodes into their wire form.
func NewNUMANodes(parts []ares.NUMANode) []*NumaNode {
	var out []*NumaNode
	for _, p := range parts {
		out = append(out, &NumaNode{Id: int32(p.ID), CpuCores: int32(p.CPUs), CpuMilli: int32(p.CPUMilli), MemoryMb: int32(p.MemoryMB)})
	}
	return out
}

// NewTaints translates taints into their wire form.
func NewTaints(taints []ares.Taint) []*Taint {
	var out []*Taint
	for _, t := range taints {
		out = append(out, &Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}

// Links translates a link matrix from its wire form.
func Links(rows []*LinkRow) [][]string {
	var links [][]string
	for _, row := range rows {
		links = append(links, row.GetTo())
	}
	return links
}

// NewLinks translates a link matrix into its wire form.
func NewLinks(links [][]string) []*LinkRow {
	var rows []*LinkRow
	for _, row := range links {
		rows = append(rows, &LinkRow{To: row})
	}
	return rows
}

func intPtr(v *int32) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}

func int32Ptr(v *int) *int32 {
	if v == nil {
		return nil
	}
	return new(int32(*v))
}
