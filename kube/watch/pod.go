package watch

import (
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	ares "github.com/ares-scheduler/ares"
)

// Pod is what the planner needs to know of a pod that uses GPUs.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	// Scheduler is the name of the scheduler that the pod asks for.
	Scheduler string
	Node      string // the node that it is bound to, "" before
	Gated     bool   // it has a scheduling gate
	Ended     bool   // all its containers have ended, or the pod is being deleted and was never bound
	Leaving   bool   // it is being deleted
	Created   time.Time
	Started   time.Time        // when its first container started, zero before
	Result    *ares.RankResult // how it ended, nil before
	GPUs      int
	Uses      Resources
	Gang      Gang
	Index     int       // its completion index, or -1
	Spec      ares.Spec // of a job with this pod as its only member
	// Problem says why the pod can never be planned as it is written, "" if it can.
	Problem string
	// Plan is what the binding wrote into the pod's annotations. It is empty for a pod that is not bound by Ares.
	Plan Bound
	// Devices has the IDs of the GPUs that the kubelet gave to the pod, sorted, once it says all of them.
	Devices []string
	// ByClaim is true if ResourceClaims give the pod its GPUs. Exact is true if the devices of Plan are allocated to it, so
	// that it uses these and no others.
	ByClaim, Exact bool
}

// FullName returns namespace/name.
func (p *Pod) FullName() string { return p.Namespace + "/" + p.Name }

// UsesGPUs reports whether the pod asks for GPUs.
func UsesGPUs(p *v1.Pod) bool { return gpus(p) > 0 }

// gpus returns the number of GPUs that a pod needs. The init containers run one after the other before the others, and
// sidecars run beside all that come after them.
func gpus(p *v1.Pod) int {
	return int(request(p, GPUResource, func(r v1.ResourceList) int64 { q := r[GPUResource]; return q.Value() }))
}

// Uses returns the CPU and memory that a pod requests.
func Uses(p *v1.Pod) Resources {
	return Resources{
		CPUMilli: request(p, v1.ResourceCPU, func(r v1.ResourceList) int64 { return r.Cpu().MilliValue() }),
		Memory:   request(p, v1.ResourceMemory, func(r v1.ResourceList) int64 { return r.Memory().Value() }),
	}
}

// request returns what the whole pod requests of one resource.
func request(p *v1.Pod, name v1.ResourceName, amount func(v1.ResourceList) int64) int64 {
	sidecars, peak := int64(0), int64(0)
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		a := amount(requests(c, name))
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			sidecars += a
			peak = max(peak, sidecars)
			continue
		}
		peak = max(peak, sidecars+a)
	}
	sum := sidecars
	for i := range p.Spec.Containers {
		sum += amount(requests(&p.Spec.Containers[i], name))
	}
	total := max(sum, peak)
	if p.Spec.Resources != nil {
		if _, whole := p.Spec.Resources.Requests[name]; whole {
			total = amount(p.Spec.Resources.Requests)
		}
	}
	return total + amount(p.Spec.Overhead)
}

// requests returns a container's requests. The API server fills in the requests of extended resources from the limits.
func requests(c *v1.Container, name v1.ResourceName) v1.ResourceList {
	if _, given := c.Resources.Requests[name]; given {
		return c.Resources.Requests
	}
	return c.Resources.Limits
}

// labelIndex is the label with a pod's completion index in its Job.
const labelIndex = "batch.kubernetes.io/job-completion-index"

// index returns the pod's number in its gang as its controller gives it, or -1.
func index(p *v1.Pod) int {
	for _, key := range []string{labelIndex, "leaderworkerset.sigs.k8s.io/worker-index", "apps.kubernetes.io/pod-index"} {
		if n, err := strconv.Atoi(p.Labels[key]); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}
