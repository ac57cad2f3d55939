package summary

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// These constants limit a summary.
const (
	MaxShapes  = 64
	MaxModels  = 64
	MaxTenants = 256
	MaxLabels  = 256
	// MaxBytes is the maximum size of an encoded summary.
	MaxBytes = 32 << 10
)

// Summary says what a cluster could start now.
type Summary struct {
	At       time.Time
	Revision int64 // of the cluster's store
	Shapes   []Shape
	Models   []Model // sorted by name
	Classes  []Class // the classes with waiting or recently started jobs, lowest first
	Tenants  []TenantUse
	Labels   []Label // sorted
	// MoreLabels is true if nodes have labels that are not in Labels.
	MoreLabels bool
	// EgressMicros is the price of data that leaves the cluster's region, in millionths of the currency for each GiB.
	EgressMicros int64
	// FailureMilli counts the attempts that were lost with their node or could not be started, in thousandths of those
	// that ended in the last hour.
	FailureMilli int
	Celsius      int // of the hottest device, 0 if unknown
}

// Shape describes nodes that are alike.
type Shape struct {
	Type
	Free
	Count int
}

// Type says what a node has.
type Type struct {
	Model          string // "" for a node without devices
	DeviceMemoryMB int
	Devices        int
	CPUs           int
	MemoryMB       int
	Link           string // the slowest link between two devices: NV, PIX, PXB, PHB, NODE or SYS; "" if unknown
}

// Free says what of a node is free. Invariant: no amount is larger than what the node has.
type Free struct {
	Devices   int // entirely free
	PartMilli int // the largest free part of another device, in thousandths
	CPUs      int
	MemoryMB  int
}

// Model describes the devices of one model.
type Model struct {
	Name        string
	Devices     int
	Free        int // entirely free
	FreeInLeaf  int // entirely free in the leaf with the most: the largest gang that needs one leaf
	InLeaf      int // devices of the largest leaf, free or not
	PriceMicros int64
	// RuntimeMilli is the runtime of a job on this model, in thousandths of its runtime on the reference model.
	RuntimeMilli int
}

// Class describes the queue of one priority class.
type Class struct {
	Name            ares.Class
	Waiting         int
	WaitingGPUMilli int64
	// DelayP50 and DelayP90 are the times from submission to first start of the jobs that started in the last hour.
	DelayP50, DelayP90 time.Duration
}

// TenantUse is the use of one tenant, and what its waiting jobs request.
type TenantUse struct {
	Tenant   string
	GPUMilli int64
	CPUs     int64
	MemoryMB int64
	// WaitingMilli is what all waiting jobs request, and LargestMilli what the largest of them requests. Since is when the
	// oldest of them was accepted, zero if none waits.
	WaitingMilli int64
	LargestMilli int64
	Since        time.Time
	// UsedSecs is what the tenant has used in the month of the summary's time (UTC), in GPU-seconds, if the hub lends it
	// GPU-hours.
	UsedSecs int64
}

// Label is a label of nodes.
type Label struct {
	Key, Value string
	Nodes      int
}

// Model returns the model with the given name.
func (s *Summary) Model(name string) (Model, bool) {
	for i := range s.Models {
		if s.Models[i].Name == name {
			return s.Models[i], true
		}
	}
	return Model{}, false
}

// Class returns the queue of a class. It is empty if the summary has none.
func (s *Summary) Class(name ares.Class) Class {
	for i := range s.Classes {
		if s.Classes[i].Name == name {
			return s.Classes[i]
		}
	}
	return Class{Name: name}
}

// MayHaveLabel reports whether a node has the label, or may have it because the summary does not have all labels.
func (s *Summary) MayHaveLabel(key, value string) bool {
	if s.MoreLabels {
		return true
	}
	for i := range s.Labels {
		if s.Labels[i].Key == key && s.Labels[i].Value == value {
			return true
		}
	}
	return false
}
