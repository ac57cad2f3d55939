package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	ares "github.com/ares-scheduler/ares"
)

// ClaimDevice is the engine's type of GPUs that pods get only by ResourceClaims. A GPU of a device plugin has the type
// ares.DefaultAccelerator, so no pod is planned with GPUs that it cannot get.
const ClaimDevice = "GPU"

// PoolDevice is a device of a ResourceSlice.
type PoolDevice struct {
	Driver, Pool string
	*resourceapi.Device
}

// ID names the device as an allocation of a claim does. It is unique in the cluster.
func (d PoolDevice) ID() string { return DeviceID(d.Driver, d.Pool, d.Name) }

// DeviceID is the ID of a device of a pool.
func DeviceID(driver, pool, name string) string { return driver + "/" + pool + "/" + name }

// PoolDevices returns the devices of a node that can be allocated whole, by driver, pool and name. The argument has the
// node's ResourceSlices. A driver replaces a pool by writing slices of a new generation, so only the newest generation
// counts, and only once all its slices exist.
func PoolDevices(list []*resourceapi.ResourceSlice) []PoolDevice {
	type pool struct{ driver, name string }
	newest := map[pool][]*resourceapi.ResourceSlice{}
	for _, s := range list {
		key := pool{s.Spec.Driver, s.Spec.Pool.Name}
		if have := newest[key]; len(have) > 0 {
			switch cmp.Compare(s.Spec.Pool.Generation, have[0].Spec.Pool.Generation) {
			case -1:
				continue
			case 1:
				newest[key] = nil
			}
		}
		newest[key] = append(newest[key], s)
	}
	var out []PoolDevice
	for key, parts := range newest {
		if int64(len(parts)) != parts[0].Spec.Pool.ResourceSliceCount {
			continue
		}
		for _, s := range parts {
			for i := range s.Spec.Devices {
				if d := &s.Spec.Devices[i]; isWhole(d) {
					out = append(out, PoolDevice{key.driver, key.name, d})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b PoolDevice) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), compareNames(a.Name, b.Name))
	})
	return out
}

// isWhole reports whether a device is taken by one allocation as a whole, independently of other devices. A partition uses
// counters that it shares with others, and some devices serve several claims at once; the engine plans neither.
func isWhole(d *resourceapi.Device) bool {
	return len(d.ConsumesCounters) == 0 && (d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations)
}

// compareNames compares names so that gpu-10 comes after gpu-9.
func compareNames(a, b string) int {
	digits := func(s string) string { return s[len(strings.TrimRight(s, "0123456789")):] }
	da, db := digits(a), digits(b)
	return cmp.Or(
		cmp.Compare(strings.TrimSuffix(a, da), strings.TrimSuffix(b, db)),
		cmp.Compare(len(strings.TrimLeft(da, "0")), len(strings.TrimLeft(db, "0"))),
		cmp.Compare(a, b),
	)
}

// Product returns the model of a device as its driver names it.
func (d PoolDevice) Product() string {
	for _, name := range []string{"productName", "model", "type"} {
		if a, ok := d.attribute(name); ok && a.StringValue != nil && *a.StringValue != "" {
			return *a.StringValue
		}
	}
	return d.Driver
}

// MemoryMB returns the memory of a device, 0 if its driver does not say it.
func (d PoolDevice) MemoryMB() int {
	for _, name := range []string{"memory", d.Driver + "/memory"} {
		if c, ok := d.Capacity[resourceapi.QualifiedName(name)]; ok {
			return int(c.Value.Value() >> 20)
		}
	}
	return 0
}

// numa returns the NUMA node of a device.
func (d PoolDevice) numa() (int, bool) {
	for _, name := range []string{"resource.kubernetes.io/numaNode", "numaNode", "numa"} {
		if a, ok := d.attribute(name); ok && a.IntValue != nil && *a.IntValue >= 0 {
			return int(*a.IntValue), true
		}
	}
	return 0, false
}

func (d PoolDevice) pcieRoot() string {
	for _, name := range []string{"resource.kubernetes.io/pcieRoot", "pcieRoot"} {
		if a, ok := d.attribute(name); ok && a.StringValue != nil {
			return *a.StringValue
		}
	}
	return ""
}

// attribute returns an attribute of a device. A name without a domain is one of the driver's own.
func (d PoolDevice) attribute(name string) (resourceapi.DeviceAttribute, bool) {
	a, ok := d.Attributes[resourceapi.QualifiedName(name)]
	if !ok && !strings.Contains(name, "/") {
		a, ok = d.Attributes[resourceapi.QualifiedName(d.Driver+"/"+name)]
	}
	return a, ok
}

// Attribute returns the value of an attribute with its full name as text, and false if the device does not have it.
func (d PoolDevice) Attribute(name string) (string, bool) {
	a, ok := d.attribute(name)
	if own, found := strings.CutPrefix(name, d.Driver+"/"); !ok && found {
		a, ok = d.attribute(own)
	}
	switch {
	case !ok:
		return "", false
	case a.StringValue != nil:
		return "s" + *a.StringValue, true
	case a.IntValue != nil:
		return fmt.Sprintf("i%d", *a.IntValue), true
	case a.BoolValue != nil:
		return fmt.Sprintf("b%t", *a.BoolValue), true
	case a.VersionValue != nil:
		return "v" + *a.VersionValue, true
	}
	return "", false
}

// GPU returns the engine's record of a device. A device with a taint gets no new pods.
func (d PoolDevice) GPU(index int, model string) ares.Device {
	out := ares.Device{ID: d.ID(), Index: index, Type: ClaimDevice, Model: model, MemoryMB: d.MemoryMB(), Healthy: true}
	out.NUMA, _ = d.numa()
	for i := range d.Taints {
		if t := &d.Taints[i]; t.Effect == resourceapi.DeviceTaintEffectNoSchedule || t.Effect == resourceapi.DeviceTaintEffectNoExecute {
			out.Healthy, out.Reason = false, "the taint "+t.Key
		}
	}
	return out
}

// UsePoolDevices makes ResourceSlices the source of a node's GPUs. The GPUs that a device plugin counts on the same node
// are ignored, because they are the same devices. The list has the devices by index, and the records come from GPU.
func UsePoolDevices(n *ares.Node, list []PoolDevice, records []ares.Device) {
	n.Devices, n.Links = records, poolLinks(list)
	seen := map[int]bool{}
	for _, d := range list {
		at, known := d.numa()
		if !known {
			return // without it, the whole node counts as one NUMA node
		}
		seen[at] = true
	}
	// Kubernetes does not say how a node's CPUs and memory are divided among its NUMA nodes, so each may offer all of
	// them. The node's own total still holds.
	whole := n.NUMA[0]
	n.NUMA = nil
	for at := range seen {
		part := whole
		part.ID = at
		n.NUMA = append(n.NUMA, part)
	}
	slices.SortFunc(n.NUMA, func(a, b ares.NUMANode) int { return cmp.Compare(a.ID, b.ID) })
}

// poolLinks returns the links between devices as far as their PCIe roots and NUMA nodes show them, or nil if a driver says
// neither.
func poolLinks(list []PoolDevice) [][]string {
	out := make([][]string, len(list))
	for i, a := range list {
		out[i] = make([]string, len(list))
		an, aKnown := a.numa()
		if !aKnown && a.pcieRoot() == "" {
			return nil
		}
		for j, b := range list {
			bn, bKnown := b.numa()
			switch {
			case i == j:
				out[i][j] = "X"
			case a.pcieRoot() != "" && a.pcieRoot() == b.pcieRoot():
				out[i][j] = "PHB"
			case aKnown && bKnown && an == bn:
				out[i][j] = "NODE"
			default:
				out[i][j] = "SYS"
			}
		}
	}
	return out
}
