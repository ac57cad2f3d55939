package service

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	ares "github.com/ares-scheduler/ares"
)

// MaskField is the field of an update request that names the fields to change.
const MaskField = "update_mask"

// Masked returns the part of m that an update changes, and the names of the fields
// that the update resets. An update resets each field that the mask names but m does not contain.
// Without a mask, an update changes the fields that are set in m, and resets no field.
func Masked[M proto.Message](m M, mask *fieldmaskpb.FieldMask) (part M, reset []string, err error) {
	if len(mask.GetPaths()) == 0 {
		return m, nil, nil
	}
	part, _ = proto.Clone(m).(M)
	r := part.ProtoReflect()
	fields := r.Descriptor().Fields()
	var p ares.Problems
	for _, path := range mask.GetPaths() {
		if fd := fields.ByName(protoreflect.Name(path)); fd == nil {
			p.Add(MaskField, "there is no field %q: use %s", ares.Clip(path), FieldNames(r.Descriptor(), nil))
		} else if !r.Has(fd) {
			reset = append(reset, path)
		}
	}
	r.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains(mask.GetPaths(), string(fd.Name())) {
			r.Clear(fd)
		}
		return true
	})
	return part, reset, p.Err()
}

// resetTenant resets fields of a tenant to their defaults. Resetting a limit
// removes it. resetTenant does not change fields that no request can set.
func resetTenant(t *ares.Tenant, fields []string) {
	for _, field := range fields {
		resetLimit(&t.Limits, field)
		switch field {
		case "name":
			t.Name = t.ID
		case "priority_tier":
			t.PriorityTier = ""
		case "fair_share_weight":
			t.Weight = 1
		case "fair_share_weight_min":
			t.WeightMin = 0
		case "fair_share_weight_max":
			t.WeightMax = 0
		case "allow_preemption":
			t.MayPreempt = true
		case "default_lost_after_seconds":
			t.LostAfterSecs = 0
		case "gpu_hours_per_month":
			t.GPUHours = 0
		case "quotas":
			t.Quotas = nil
		}
	}
}

// resetQueue resets fields of a queue to their defaults, as resetTenant does
// for a tenant.
func resetQueue(q *ares.Queue, fields []string) {
	for _, field := range fields {
		resetLimit(&q.Limits, field)
		switch field {
		case "parent":
			q.Parent = ""
		case "weight":
			q.Weight = 1
		case "quotas":
			q.Quotas = nil
		}
	}
}

func resetLimit(l *ares.Limits, field string) {
	limits := map[string]*int{
		"max_gpus": &l.GPUs, "max_gpu_memory_mb": &l.GPUMemoryMB, "max_cpu_cores": &l.CPUs, "max_memory_mb": &l.MemoryMB,
		"max_concurrent_jobs": &l.ConcurrentJobs, "max_pending_jobs": &l.PendingJobs,
	}
	if limit, ok := limits[field]; ok {
		*limit = ares.Unlimited
	}
}

func FieldNames(d protoreflect.MessageDescriptor, path []string) string {
	out := ""
	for i := range d.Fields().Len() {
		if name := string(d.Fields().Get(i).Name()); !slices.Contains(path, name) {
			if out != "" {
				out += ", "
			}
			out += name
		}
	}
	return out
}
