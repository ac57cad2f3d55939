package summary

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Encode returns the summary as a message of at most MaxBytes. If it is larger, it loses labels first, then tenants, then
// shapes: each half of the rest at a time. Losing shapes only hides capacity.
func (s *Summary) Encode() ([]byte, error) {
	m := s.message()
	for {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		switch {
		case err != nil:
			return nil, err
		case len(data) <= MaxBytes:
			return data, nil
		case len(m.Labels) > 0:
			m.Labels, m.MoreLabels = m.Labels[:len(m.Labels)/2], true
		case len(m.Tenants) > 0:
			m.Tenants = m.Tenants[:len(m.Tenants)/2]
		case len(m.Shapes) > 0:
			m.Shapes = m.Shapes[:len(m.Shapes)/2]
		default:
			return nil, ares.Errorf(ares.Invalid, "the summary has %d bytes without labels, tenants and shapes, and at most %d are allowed: shorten the names of GPU models", len(data), MaxBytes)
		}
	}
}

// IsSame reports whether two encoded summaries differ at most in their time, in the revision of the store, and in the GPU-hours
// that tenants have used: these grow while jobs run.
func IsSame(a, b []byte) bool {
	var parts [2]apipb.ClusterSummary
	for i, data := range [][]byte{a, b} {
		if len(data) == 0 || proto.Unmarshal(data, &parts[i]) != nil {
			return false
		}
		parts[i].At, parts[i].Revision = nil, 0
		for _, t := range parts[i].GetTenants() {
			t.UsedGpuSeconds = 0
		}
	}
	return proto.Equal(&parts[0], &parts[1])
}

func (s *Summary) message() *apipb.ClusterSummary {
	m := &apipb.ClusterSummary{
		At: timestamppb.New(s.At), Revision: s.Revision, EgressMicrosPerGib: s.EgressMicros, FailureMilli: int32(s.FailureMilli), Celsius: int32(s.Celsius), MoreLabels: s.MoreLabels,
	}
	for i := range s.Shapes {
		n := &s.Shapes[i]
		m.Shapes = append(m.Shapes, &apipb.SummaryShape{
			Model: n.Model, DeviceMemoryMb: int32(n.DeviceMemoryMB), Devices: int32(n.Type.Devices), Cpus: int32(n.Type.CPUs), MemoryMb: int32(n.Type.MemoryMB), Link: n.Link,
			FreeDevices: int32(n.Free.Devices), FreePartMilli: int32(n.PartMilli), FreeCpus: int32(n.Free.CPUs), FreeMemoryMb: int32(n.Free.MemoryMB), Count: int32(n.Count),
		})
	}
	for _, d := range s.Models {
		m.Models = append(m.Models, &apipb.SummaryModel{
			Model: d.Name, Devices: int32(d.Devices), FreeDevices: int32(d.Free), FreeInLeaf: int32(d.FreeInLeaf), LargestInLeaf: int32(d.InLeaf),
			PriceMicros: d.PriceMicros, RuntimeMilli: int32(d.RuntimeMilli),
		})
	}
	for _, c := range s.Classes {
		m.Classes = append(m.Classes, &apipb.SummaryClass{
			PriorityClass: string(c.Name), Waiting: int32(c.Waiting), WaitingGpuMilli: c.WaitingGPUMilli,
			StartDelayP50Ms: c.DelayP50.Milliseconds(), StartDelayP90Ms: c.DelayP90.Milliseconds(),
		})
	}
	for _, t := range s.Tenants {
		n := &apipb.SummaryTenant{
			TenantId: t.Tenant, GpuMilli: t.GPUMilli, Cpus: t.CPUs, MemoryMb: t.MemoryMB, WaitingGpuMilli: t.WaitingMilli, LargestWaitingGpuMilli: t.LargestMilli, UsedGpuSeconds: t.UsedSecs,
		}
		if !t.Since.IsZero() {
			n.WaitingSince = t.Since.Unix()
		}
		m.Tenants = append(m.Tenants, n)
	}
	for _, l := range s.Labels {
		m.Labels = append(m.Labels, &apipb.SummaryLabel{Key: l.Key, Value: l.Value, Nodes: int32(l.Nodes)})
	}
	return m
}

// Decode reads a summary that a member sent. A member may run another version or be broken, so every amount is checked:
// none is negative, and nothing is free that a node does not have.
func Decode(data []byte) (*Summary, error) {
	if len(data) > MaxBytes {
		return nil, ares.Errorf(ares.Invalid, "the summary has %d bytes, and at most %d are allowed", len(data), MaxBytes)
	}
	var m apipb.ClusterSummary
	if err := proto.Unmarshal(data, &m); err != nil {
		return nil, ares.Errorf(ares.Invalid, "the summary is not a ClusterSummary: %s", err)
	}
	s := &Summary{
		At: m.GetAt().AsTime(), Revision: m.GetRevision(), EgressMicros: m.GetEgressMicrosPerGib(), FailureMilli: int(m.GetFailureMilli()), Celsius: int(m.GetCelsius()), MoreLabels: m.GetMoreLabels(),
	}
	for _, n := range m.GetShapes() {
		s.Shapes = append(s.Shapes, Shape{
			Type{n.GetModel(), int(n.GetDeviceMemoryMb()), int(n.GetDevices()), int(n.GetCpus()), int(n.GetMemoryMb()), n.GetLink()},
			Free{int(n.GetFreeDevices()), int(n.GetFreePartMilli()), int(n.GetFreeCpus()), int(n.GetFreeMemoryMb())}, int(n.GetCount()),
		})
	}
	for _, d := range m.GetModels() {
		s.Models = append(s.Models, Model{
			d.GetModel(), int(d.GetDevices()), int(d.GetFreeDevices()), int(d.GetFreeInLeaf()), int(d.GetLargestInLeaf()), d.GetPriceMicros(), int(d.GetRuntimeMilli()),
		})
	}
	for _, c := range m.GetClasses() {
		s.Classes = append(s.Classes, Class{
			ares.Class(c.GetPriorityClass()), int(c.GetWaiting()), c.GetWaitingGpuMilli(),
			time.Duration(c.GetStartDelayP50Ms()) * time.Millisecond, time.Duration(c.GetStartDelayP90Ms()) * time.Millisecond,
		})
	}
	for _, t := range m.GetTenants() {
		u := TenantUse{
			Tenant: t.GetTenantId(), GPUMilli: t.GetGpuMilli(), CPUs: t.GetCpus(), MemoryMB: t.GetMemoryMb(),
			WaitingMilli: t.GetWaitingGpuMilli(), LargestMilli: t.GetLargestWaitingGpuMilli(), UsedSecs: t.GetUsedGpuSeconds(),
		}
		if t.GetWaitingSince() > 0 {
			u.Since = time.Unix(t.GetWaitingSince(), 0).UTC()
		}
		s.Tenants = append(s.Tenants, u)
	}
	for _, l := range m.GetLabels() {
		s.Labels = append(s.Labels, Label{l.GetKey(), l.GetValue(), int(l.GetNodes())})
	}
	return s, s.check()
}

// These constants limit what a summary may claim, so that a broken member cannot exhaust the hub.
const (
	maxNodes       = 200_000
	maxNodeDevices = 64
	maxMicros      = int64(1) << 50
)

// check reports the first amount that no cluster can have.
func (s *Summary) check() error {
	wrong := func(form string, args ...any) error {
		return ares.Errorf(ares.Invalid, "the summary is wrong: "+form, args...)
	}
	if len(s.Shapes) > MaxShapes || len(s.Models) > MaxModels || len(s.Tenants) > MaxTenants || len(s.Labels) > MaxLabels || len(s.Classes) > len(ares.Classes()) {
		return wrong("it has %d shapes, %d models, %d tenants, %d labels and %d classes, and at most %d, %d, %d, %d and %d are allowed",
			len(s.Shapes), len(s.Models), len(s.Tenants), len(s.Labels), len(s.Classes), MaxShapes, MaxModels, MaxTenants, MaxLabels, len(ares.Classes()))
	}
	nodes := 0
	for i := range s.Shapes {
		n := &s.Shapes[i]
		if min(n.DeviceMemoryMB, n.Type.Devices, n.Type.CPUs, n.Type.MemoryMB, n.Free.Devices, n.PartMilli, n.Free.CPUs, n.Free.MemoryMB) < 0 || n.Count < 1 {
			return wrong("shape %d has a negative amount or no node", i)
		}
		if n.Free.Devices > n.Type.Devices || n.PartMilli >= 1000 || n.PartMilli > 0 && n.Free.Devices == n.Type.Devices || n.Free.CPUs > n.Type.CPUs || n.Free.MemoryMB > n.Type.MemoryMB {
			return wrong("shape %d has more free than there is", i)
		}
		if nodes += n.Count; nodes > maxNodes || n.Count > maxNodes || n.Type.Devices > maxNodeDevices {
			return wrong("more than %d nodes, or more than %d devices of a node", maxNodes, maxNodeDevices)
		}
	}
	for _, m := range s.Models {
		if min(m.Devices, m.Free, m.FreeInLeaf, m.InLeaf, m.RuntimeMilli) < 0 || m.PriceMicros < 0 || m.PriceMicros > maxMicros {
			return wrong("model %q has an amount or a price out of range", ares.Clip(m.Name))
		}
	}
	for _, c := range s.Classes {
		if c.Name.Rank() < 0 || c.Waiting < 0 || min(c.WaitingGPUMilli, int64(c.DelayP50), int64(c.DelayP90)) < 0 {
			return wrong("class %q is unknown, or has a negative amount", ares.Clip(string(c.Name)))
		}
	}
	for _, t := range s.Tenants {
		if min(t.GPUMilli, t.CPUs, t.MemoryMB, t.WaitingMilli, t.LargestMilli, t.UsedSecs) < 0 || t.LargestMilli > t.WaitingMilli {
			return wrong("tenant %q has a negative use, or a waiting job that is larger than all together", ares.Clip(t.Tenant))
		}
	}
	if s.EgressMicros < 0 || s.EgressMicros > maxMicros {
		return wrong("the price of egress is %d millionths", s.EgressMicros)
	}
	return nil
}
