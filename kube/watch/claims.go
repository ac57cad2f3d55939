package watch

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	ares "github.com/ares-scheduler/ares"
)

// DeviceRequest is a request of a ResourceClaim for devices of one class.
type DeviceRequest struct {
	Claim, Name string
	Class       string
	Selectors   []string // CEL expressions, in addition to those of the class
	Count       int
	// Match has the attributes in which the devices must agree.
	Match []string
	// Problem says why GPUs cannot be planned for the request as it is written, "" if they can.
	Problem string
}

// DeviceRequests returns the requests of a claim. A request with adminAccess takes no device from others, so it is left
// out; the scheduler's own filters take care of it.
func DeviceRequests(c *resourceapi.ResourceClaim) []DeviceRequest {
	var out []DeviceRequest
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		for k := range r.FirstAvailable {
			sub := &r.FirstAvailable[k]
			out = append(out, DeviceRequest{
				Claim: c.Name, Name: r.Name, Class: sub.DeviceClassName, Selectors: expressions(sub.Selectors), Count: int(max(sub.Count, 1)),
				Problem: "firstAvailable cannot be planned for GPUs: write exactly, with the class that the pod needs",
			})
		}
		e := r.Exactly
		if e == nil || e.AdminAccess != nil && *e.AdminAccess {
			continue
		}
		q := DeviceRequest{Claim: c.Name, Name: r.Name, Class: e.DeviceClassName, Selectors: expressions(e.Selectors), Count: int(max(e.Count, 1))}
		switch {
		case e.AllocationMode == resourceapi.DeviceAllocationModeAll:
			q.Problem = "allocationMode All cannot be planned for GPUs: write ExactCount and the number of GPUs in count"
		case e.Capacity != nil:
			q.Problem = "capacity cannot be planned for GPUs, which are allocated whole: remove it"
		}
		out = append(out, q)
	}
	for i := range c.Spec.Devices.Constraints {
		k := &c.Spec.Devices.Constraints[i]
		for j := range out {
			if len(k.Requests) > 0 && !slices.Contains(k.Requests, out[j].Name) {
				continue
			}
			if k.MatchAttribute == nil {
				out[j].Problem = "only the constraint matchAttribute can be planned for GPUs: remove the others"
				continue
			}
			out[j].Match = append(out[j].Match, string(*k.MatchAttribute))
		}
	}
	return out
}

func expressions(list []resourceapi.DeviceSelector) []string {
	var out []string
	for i := range list {
		if list[i].CEL != nil {
			out = append(out, list[i].CEL.Expression)
		}
	}
	return out
}

// ReservedFor reports whether a pod may use a claim, and whether others may too.
func ReservedFor(c *resourceapi.ResourceClaim, p *v1.Pod) (pod, others bool) {
	for i := range c.Status.ReservedFor {
		r := &c.Status.ReservedFor[i]
		if r.APIGroup == "" && r.Resource == "pods" && r.UID == p.UID {
			pod = true
		} else {
			others = true
		}
	}
	return pod, others
}

// Claims is what the ResourceClaims of a pod ask for.
type Claims struct {
	GPUs int
	Type string // the engine's type of the GPUs
	// Models has the engine's names of the models that satisfy the requests.
	Models []string
	// Devices has the indexes of the GPUs that are allocated to the pod on its node, nil if none are.
	Devices []int
	// Problem says why the claims cannot be planned, "" if they can.
	Problem string
}

// TranslateClaimPod is TranslatePod for a pod that gets its GPUs by ResourceClaims.
func TranslateClaimPod(p *v1.Pod, owner *Owner, namespaceLabels map[string]string, c Claims) *Pod {
	out := translatePod(p, owner, namespaceLabels, c.GPUs)
	out.ByClaim = true
	out.Spec.AcceleratorType = c.Type
	if n := gpus(p); n > 0 {
		out.Problem = fmt.Sprintf("the pod asks for GPUs by resourceClaims and for %d in its limits of %s: remove one of the two", n, GPUResource)
	}
	if c.Problem != "" {
		out.Problem = c.Problem
	}
	if len(c.Models) > 0 {
		where := out.Spec.EditPlacement()
		where.NodeRequirements = append(slices.Clone(where.NodeRequirements),
			ares.NodeRequirement{Key: ares.KeyGPUModel, Operator: ares.OperatorIn, Values: c.Models})
	}
	if c.Devices != nil && p.Spec.NodeName != "" {
		out.Plan.Devices, out.Exact = c.Devices, true
	}
	return out
}

// ClaimHolder returns a pod that stands for a ResourceClaim whose devices belong to no single pod of this scheduler: a
// claim of another scheduler's pods, or one that several pods share. It is never preempted.
func ClaimHolder(c *resourceapi.ResourceClaim, node string, devices []int) *Pod {
	uid := HolderUID(c)
	return &Pod{
		UID: uid, Namespace: c.Namespace, Name: c.Name, Node: node, Created: c.CreationTimestamp.Time, GPUs: len(devices), Index: -1,
		Gang: Gang{Key: "claim:" + uid, Size: 1, Total: 1}, ByClaim: true, Exact: true,
		Plan: Bound{Devices: devices},
		Spec: ares.Spec{
			Name: c.Name, Tenant: c.Namespace, Members: 1, GPUs: len(devices), AcceleratorType: ClaimDevice,
			Priority: new(priority(nil)), PriorityClass: ares.ClassOf(priority(nil)), Constraints: &ares.Placement{},
			Retry: ares.RetryPolicy{MaxRetries: new(0)},
		},
	}
}

// HolderUID is the UID of the pod that ClaimHolder returns.
func HolderUID(c *resourceapi.ResourceClaim) string { return "claim:" + string(c.UID) }

// AllocatedDevices returns the IDs of the devices that are allocated to a claim. A device that was allocated with
// adminAccess is still free for others.
func AllocatedDevices(c *resourceapi.ResourceClaim) []string {
	if c.Status.Allocation == nil {
		return nil
	}
	var out []string
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, DeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out
}

// RequestText describes what devices a request selects, for a person.
func (r *DeviceRequest) RequestText() string {
	text := fmt.Sprintf("the request %q of the claim %q (class %s", r.Name, r.Claim, r.Class)
	if len(r.Selectors) > 0 {
		text += ", selector " + strings.Join(r.Selectors, " && ")
	}
	return text + ")"
}
