package ares

import (
	"slices"
	"strconv"
	"strings"
)

// NodeRequirement is one condition that a node must meet for a job to run there. A requirement's key is a label of the
// node or one of the reserved keys KeyGPUModel, KeyGPUMemory, KeyGPUCount and KeyNodeName. The values of reserved keys come from
// the node's record, and a label with the same name is ignored.
//
// If a node's label is missing or is not a number, the operators >= and <= do not hold. If a node lacks the
// label, the operators NotIn and DoesNotExist hold.
type NodeRequirement struct {
	Key      string              `json:"key,omitzero"`
	Operator RequirementOperator `json:"operator,omitzero"`
	// With In and NotIn, Values has at least one entry. With >= and <=, it has exactly one. With Exists and
	// DoesNotExist, it has none.
	Values []string `json:"values,omitzero"`
}

// RequirementOperator is the operator with which a requirement compares a node's value.
type RequirementOperator string

// These are the operators of a requirement.
const (
	OperatorIn           RequirementOperator = "In"           // the value is one of those listed
	OperatorNotIn        RequirementOperator = "NotIn"        // the value is not one of those listed
	OperatorExists       RequirementOperator = "Exists"       // the key has a value
	OperatorDoesNotExist RequirementOperator = "DoesNotExist" // the key has no value
	OperatorAtLeast      RequirementOperator = ">="           // the value is a number that is at least the one given
	OperatorAtMost       RequirementOperator = "<="           // the value is a number that is at most the one given
)

// RequirementOperators lists the operators.
func RequirementOperators() []RequirementOperator {
	return []RequirementOperator{OperatorIn, OperatorNotIn, OperatorExists, OperatorDoesNotExist, OperatorAtLeast, OperatorAtMost}
}

// The reserved keys.
const (
	// KeyGPUModel is a device's model. A value matches every model name that contains it, and case does not matter. For
	// example, h100 matches "NVIDIA H100 80GB HBM3".
	KeyGPUModel = "gpu.model"
	// KeyGPUMemory is the memory of one device. A number without a unit is in MB of 2^20 bytes, as in the node's
	// record. A GPU sold with 80 GB of memory reports between 80G and 80Gi.
	KeyGPUMemory = "gpu.memory"
	// KeyGPUCount is the number of devices in the node's record. It includes devices that are unhealthy or in use. Each
	// MIG slice is one device.
	KeyGPUCount = "gpu.count"
	// KeyNodeName is the ID of the node.
	KeyNodeName = "node.name"
)

// These are the limits on requirements.
const (
	MaxNodeRequirements  = 32
	MaxRequirementValues = 64
)

// NodeRequirements are conditions that must all hold.
type NodeRequirements []NodeRequirement

// Matches reports whether a job without GPUs may run on a node. The node must meet the requirements on nodes. It must
// also have at least one device that meets all requirements on devices. If a job requests GPUs, each device that it
// gets must also match.
func (rs NodeRequirements) Matches(n *Node) bool {
	return rs.MatchesNode(n.ID, n.Labels, len(n.Devices)) && (!rs.OnDevices() || slices.ContainsFunc(n.Devices, func(d Device) bool {
		return rs.MatchesDevice(d.Model, d.MemoryMB)
	}))
}

// MatchesNode reports whether a node meets all requirements that concern the node as a whole. It
// does not check requirements on single devices.
func (rs NodeRequirements) MatchesNode(id string, labels map[string]string, devices int) bool {
	for i := range rs {
		if !rs[i].MatchesNode(id, labels, devices) {
			return false
		}
	}
	return true
}

// MatchesDevice reports whether a device meets every requirement on devices.
func (rs NodeRequirements) MatchesDevice(model string, memoryMB int) bool {
	for i := range rs {
		if !rs[i].MatchesDevice(model, memoryMB) {
			return false
		}
	}
	return true
}

// OnDevices reports whether at least one of the requirements must be checked for each device.
func (rs NodeRequirements) OnDevices() bool {
	return slices.ContainsFunc(rs, NodeRequirement.OnDevices)
}

// OnDevices reports whether the requirement must be checked for each device. That is the case if the key is gpu.model
// or gpu.memory and the operator compares values. A requirement with Exists or DoesNotExist is checked for the node. It
// only asks whether the node has devices.
func (r NodeRequirement) OnDevices() bool {
	return (r.Key == KeyGPUModel || r.Key == KeyGPUMemory) && r.Operator != OperatorExists && r.Operator != OperatorDoesNotExist
}

// MatchesNode reports whether a node with the given ID, labels and number of devices meets the requirement. If the requirement is on
// devices, MatchesNode returns true, because MatchesDevice checks it.
func (r NodeRequirement) MatchesNode(id string, labels map[string]string, devices int) bool {
	switch r.Key {
	case KeyGPUModel, KeyGPUMemory, KeyGPUCount:
		return r.OnDevices() || r.matchesCount(devices)
	}
	value, ok := labels[r.Key]
	if r.Key == KeyNodeName {
		value, ok = id, true
	}
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

// MatchesDevice reports whether a device of this model and memory meets the requirement. A device with unknown memory (0) meets no
// requirement on memory. MatchesDevice returns true for a requirement that is not on devices.
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

// matchesCount checks a requirement with a reserved key against the node's number of devices.
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

// This method reports whether a number meets the requirement's lower or upper bound.
func (r NodeRequirement) compares(number float64, parse func(string) (float64, error)) bool {
	if len(r.Values) != 1 {
		return false
	}
	bound, err := parse(r.Values[0])
	return err == nil && (r.Operator == OperatorAtLeast && number >= bound || r.Operator == OperatorAtMost && number <= bound)
}

// bytesPerMB is the size of an MB in a node's record.
const bytesPerMB = 1 << 20

// parseMemory reads a value of gpu.memory and returns bytes.
func parseMemory(s string) (float64, error) {
	v, err := ParseQuantity(s)
	if isDecimal(s) {
		v *= bytesPerMB
	}
	return v, err
}
