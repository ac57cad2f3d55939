package ares

import (
	"slices"
	"strconv"
	"strings"
)

// NodeRequirement is one condition that a node must meet for a job to run there.
// Its key is a label of the node, or one of the reserved keys KeyGPUModel,
// KeyGPUMemory and KeyGPUCount, which are facts of the node's record: a label of that
// name does not count.
//
// A label that is missing, or is not a number, meets neither >= nor <=. A missing
// label meets NotIn and DoesNotExist.
type NodeRequirement struct {
	Key      string              `json:"key,omitzero"`
	Operator RequirementOperator `json:"operator,omitzero"`
	// Values has at least one entry with In and NotIn, exactly one with >= and
	// <=, and none with Exists and DoesNotExist.
	Values []string `json:"values,omitzero"`
}

// RequirementOperator says how a requirement compares.
type RequirementOperator string

// The operators of a requirement.
const (
	OperatorIn           RequirementOperator = "In"           // the value is one of those listed
	OperatorNotIn        RequirementOperator = "NotIn"        // it is none of those listed
	OperatorExists       RequirementOperator = "Exists"       // there is a value
	OperatorDoesNotExist RequirementOperator = "DoesNotExist" // there is none
	OperatorAtLeast      RequirementOperator = ">="           // a number, at least the one given
	OperatorAtMost       RequirementOperator = "<="           // a number, at most the one given
)

// RequirementOperators lists the operators.
func RequirementOperators() []RequirementOperator {
	return []RequirementOperator{OperatorIn, OperatorNotIn, OperatorExists, OperatorDoesNotExist, OperatorAtLeast, OperatorAtMost}
}

// The reserved keys.
const (
	// KeyGPUModel is a device's model. A value matches a model that contains it,
	// in upper or lower case: h100 matches "NVIDIA H100 80GB HBM3".
	KeyGPUModel = "gpu.model"
	// KeyGPUMemory is the memory of one device. A number without a unit is in MB
	// as in the node's record, which are 2^20 bytes each. A card sold with 80 GB
	// has between 80G and 80Gi.
	KeyGPUMemory = "gpu.memory"
	// KeyGPUCount is how many devices the node's record lists, healthy or not, in
	// use or not. Each MIG slice is one device.
	KeyGPUCount = "gpu.count"
)

// Limits on requirements.
const (
	MaxNodeRequirements  = 32
	MaxRequirementValues = 64
)

// NodeRequirements are conditions that must all hold.
type NodeRequirements []NodeRequirement

// Matches says whether a job without GPUs may run on a node: the node meets what
// is required of it, and has at least one device that meets everything required
// of devices. A job with GPUs needs more: each device it gets must match.
func (rs NodeRequirements) Matches(n *Node) bool {
	return rs.MatchesNode(n.Labels, len(n.Devices)) && (!rs.OnDevices() || slices.ContainsFunc(n.Devices, func(d Device) bool {
		return rs.MatchesDevice(d.Model, d.MemoryMB)
	}))
}

// MatchesNode says whether a node with these labels and that many devices meets
// every requirement that is not on devices.
func (rs NodeRequirements) MatchesNode(labels map[string]string, devices int) bool {
	for i := range rs {
		if !rs[i].MatchesNode(labels, devices) {
			return false
		}
	}
	return true
}

// MatchesDevice says whether a device meets every requirement on devices.
func (rs NodeRequirements) MatchesDevice(model string, memoryMB int) bool {
	for i := range rs {
		if !rs[i].MatchesDevice(model, memoryMB) {
			return false
		}
	}
	return true
}

// OnDevices says whether any of the requirements is on devices.
func (rs NodeRequirements) OnDevices() bool {
	return slices.ContainsFunc(rs, NodeRequirement.OnDevices)
}

// OnDevices says whether the requirement is decided device by device, by
// MatchesDevice. These are gpu.model and gpu.memory with a value. Whether they
// exist is a question to the node: does it have devices at all?
func (r NodeRequirement) OnDevices() bool {
	return (r.Key == KeyGPUModel || r.Key == KeyGPUMemory) && r.Operator != OperatorExists && r.Operator != OperatorDoesNotExist
}

// MatchesNode says whether a node with these labels and that many devices meets
// the requirement. It is true of a requirement on devices, which it cannot decide.
func (r NodeRequirement) MatchesNode(labels map[string]string, devices int) bool {
	switch r.Key {
	case KeyGPUModel, KeyGPUMemory, KeyGPUCount:
		return r.OnDevices() || r.matchesCount(devices)
	}
	value, ok := labels[r.Key]
	switch r.Operator {
	case OperatorIn:
		return ok && slices.Contains(r.Values, value)
	case OperatorNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case OperatorExists:
		return ok
	case OperatorDoesNotExist:
		return !ok
	default:
		number, err := ParseQuantity(value)
		return ok && err == nil && r.compares(number, ParseQuantity)
	}
}

// MatchesDevice says whether a device of this model and memory meets the
// requirement. A device of which the memory is not known, 0, meets no requirement
// on memory. It is true of a requirement that is not on devices.
func (r NodeRequirement) MatchesDevice(model string, memoryMB int) bool {
	if !r.OnDevices() {
		return true
	}
	if r.Key == KeyGPUMemory {
		return memoryMB > 0 && r.compares(float64(memoryMB)*bytesPerMB, parseMemory)
	}
	model = strings.ToLower(model)
	listed := slices.ContainsFunc(r.Values, func(v string) bool { return strings.Contains(model, strings.ToLower(v)) })
	return r.Operator == OperatorIn && listed || r.Operator == OperatorNotIn && !listed
}

// matchesCount decides a reserved key by the number of devices.
func (r NodeRequirement) matchesCount(devices int) bool {
	listed := func() bool {
		return slices.ContainsFunc(r.Values, func(v string) bool { n, err := strconv.Atoi(v); return err == nil && n == devices })
	}
	switch r.Operator {
	case OperatorIn:
		return listed()
	case OperatorNotIn:
		return !listed()
	case OperatorExists:
		return devices > 0
	case OperatorDoesNotExist:
		return devices == 0
	default:
		return r.compares(float64(devices), ParseQuantity)
	}
}

// compares says whether a number is on the right side of the requirement's.
func (r NodeRequirement) compares(number float64, parse func(string) (float64, error)) bool {
	if len(r.Values) != 1 {
		return false
	}
	bound, err := parse(r.Values[0])
	return err == nil && (r.Operator == OperatorAtLeast && number >= bound || r.Operator == OperatorAtMost && number <= bound)
}

// bytesPerMB is what a node's record calls an MB.
const bytesPerMB = 1 << 20

// parseMemory reads gpu.memory in bytes.
func parseMemory(s string) (float64, error) {
	v, err := ParseQuantity(s)
	if isDecimal(s) {
		v *= bytesPerMB
	}
	return v, err
}
