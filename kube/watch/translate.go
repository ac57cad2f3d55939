package watch

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/annotations"
)

// LabelTenant is the label of a namespace that names the tenant of its pods. Without the label, the namespace itself is
// the tenant, so that namespaces share the GPUs fairly.
const LabelTenant = "ares.dev/tenant"

// TranslatePod returns what the planner needs to know of a pod. The owner may be nil.
func TranslatePod(p *v1.Pod, owner *Owner, namespaceLabels map[string]string) *Pod {
	return translatePod(p, owner, namespaceLabels, gpus(p))
}

// translatePod returns what the planner needs to know of a pod that asks for a number of GPUs.
func translatePod(p *v1.Pod, owner *Owner, namespaceLabels map[string]string, count int) *Pod {
	out := &Pod{
		UID:       string(p.UID),
		Namespace: p.Namespace,
		Name:      p.Name,
		Scheduler: p.Spec.SchedulerName,
		Node:      p.Spec.NodeName,
		Gated:     len(p.Spec.SchedulingGates) > 0,
		Ended:     Ended(p),
		Leaving:   p.DeletionTimestamp != nil,
		Created:   p.CreationTimestamp.Time,
		Started:   started(p),
		Result:    result(p),
		GPUs:      count,
		Uses:      Uses(p),
		Index:     index(p),
		Plan:      bound(p),
		Devices:   devicesInUse(p),
	}
	out.Gang, out.Problem = gang(p, owner)
	request, err := annotations.Parse(p.Annotations, inherited(owner))
	if err == nil && (owner == nil || !slices.Contains(owner.Totals, request.GPUs)) {
		_, err = annotations.GPUs(request, out.GPUs, out.Gang.Total)
	}
	if err != nil {
		out.Problem = err.Error()
	}
	out.Spec = ares.Spec{
		Name:          workloadName(p, owner),
		Tenant:        tenant(p.Namespace, namespaceLabels),
		Members:       1,
		GPUs:          out.GPUs,
		MemoryMB:      int((out.Uses.Memory + 1<<20 - 1) >> 20),
		Labels:        p.Labels,
		Priority:      new(priority(p.Spec.Priority)),
		PriorityClass: ares.ClassOf(priority(p.Spec.Priority)),
		Constraints:   new(request.Placement()),
		// Kubernetes starts a failed pod again, or its controller creates another. The engine only places it.
		Retry: ares.RetryPolicy{MaxRetries: new(0)},
	}
	describe(&out.Spec, p)
	out.Spec.SetMilliCPUs(int(out.Uses.CPUMilli))
	where := out.Spec.Constraints
	where.RequiredLevel = string(out.Gang.Level)
	where.NodeSelector = p.Spec.NodeSelector
	where.Tolerations = tolerations(p.Spec.Tolerations)
	where.NodeRequirements = requirements(p.Spec.Affinity)
	if owner != nil && !owner.IsGang && owner.Pods > 1 && (where.LatencySensitive || where.Strategy == "distributed") {
		spread(&out.Spec, owner)
	}
	return out
}

// workloadName returns a name that the pods of one workload share, and as far as possible those of its next run too.
func workloadName(p *v1.Pod, owner *Owner) string {
	if owner != nil && owner.Name != "" {
		return owner.Name
	}
	return cmp.Or(strings.TrimRight(p.GenerateName, "-"), p.Name)
}

// describe says what a pod runs. Runtimes are learned from earlier pods that ran the same.
func describe(s *ares.Spec, p *v1.Pod) {
	main := &p.Spec.Containers[0] // a pod has at least one
	for i := range p.Spec.Containers {
		if _, uses := requests(&p.Spec.Containers[i], GPUResource)[GPUResource]; uses {
			main = &p.Spec.Containers[i]
			break
		}
	}
	s.Image, s.Command, s.Args = main.Image, main.Command, main.Args
}

// inherited returns the annotations that a pod has from its workload and its PodGroup. Those of the workload win.
func inherited(owner *Owner) map[string]string {
	if owner == nil {
		return nil
	}
	if owner.Group == nil {
		return owner.Annotations
	}
	return overlaid(owner.Group.Annotations, owner.Annotations)
}

// overlaid returns the annotations of both maps. Those of the second one win.
func overlaid(under, over map[string]string) map[string]string {
	if len(under) == 0 {
		return over
	}
	out := maps.Clone(under)
	maps.Copy(out, over)
	return out
}

// labelOwner is a label of the engine's job for a pod, with the UID of the workload that the pod belongs to.
const labelOwner = "ares.dev/owner"

// spread keeps the replicas of a workload on different nodes as far as possible, so that the loss of a node stops only one
// of them. Each replica is a job of its own for the engine.
func spread(s *ares.Spec, owner *Owner) {
	labels := map[string]string{labelOwner: owner.UID}
	for k, v := range s.Labels {
		labels[k] = v
	}
	s.Labels = labels
	s.EditPlacement().PreferredAntiAffinity = []string{labelOwner + "=" + owner.UID}
}

func tenant(namespace string, labels map[string]string) string {
	if t := labels[LabelTenant]; ares.ValidName(t) {
		return t
	}
	return namespace
}

// The priorities of Kubernetes are 32-bit numbers, of which people use those up to a thousand million. The engine
// compares classes, and inside a class it prefers the higher number.
const (
	highFrom     = 1_000
	criticalFrom = 1_000_000
)

// priority translates the priority of a pod: below 0 is low, 0 to 999 normal, from 1,000 high, from 1,000,000 critical.
func priority(p *int32) int {
	value := 0
	if p != nil {
		value = int(*p)
	}
	span := func(class, next ares.Class, offset int) int {
		return min(class.Floor()+offset, next.Floor()-1)
	}
	switch {
	case value < 0:
		return max(ares.Normal.Floor()-1+max(value, -1_000_000), ares.Low.Floor())
	case value < highFrom:
		return span(ares.Normal, ares.High, value/2)
	case value < criticalFrom:
		return span(ares.High, ares.Critical, (value-highFrom)/1000)
	}
	return min(ares.Critical.Floor()+(value-criticalFrom)/10_000, ares.MaxPriority)
}

// tolerations writes the tolerations of a pod as the engine reads them. A node's NoExecute taint is NoSchedule for the
// engine, so the same holds for tolerations.
func tolerations(list []v1.Toleration) []string {
	var out []string
	for i := range list {
		t := &list[i]
		text := t.Key
		switch {
		case t.Key == "" && t.Operator == v1.TolerationOpExists:
			text = "*"
		case t.Key == "":
			continue // the API server rejects it
		case t.Operator != v1.TolerationOpExists:
			text += "=" + t.Value
		}
		switch t.Effect {
		case "":
		case v1.TaintEffectPreferNoSchedule:
			text += ":" + string(ares.PreferNoSchedule)
		default:
			text += ":" + string(ares.NoSchedule)
		}
		out = append(out, text)
	}
	return out
}

// requirements translates the required node affinity of a pod if it has one term. The engine cannot express several
// terms, of which one must hold. Of those, and of everything else that it cannot express, the scheduler's own filters
// take care: a node that they reject is excluded for the pod.
func requirements(a *v1.Affinity) ares.NodeRequirements {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 {
		return nil
	}
	var out ares.NodeRequirements
	for _, e := range terms[0].MatchExpressions {
		if r, ok := requirement(e.Key, e.Operator, e.Values); ok {
			out = append(out, r)
		}
	}
	for _, e := range terms[0].MatchFields { // metadata.name is the only field
		if r, ok := requirement(ares.KeyNodeName, e.Operator, e.Values); ok {
			out = append(out, r)
		}
	}
	return out
}

func requirement(key string, operator v1.NodeSelectorOperator, values []string) (ares.NodeRequirement, bool) {
	r := ares.NodeRequirement{Key: key, Values: values}
	switch operator {
	case v1.NodeSelectorOpIn:
		r.Operator = ares.OperatorIn
	case v1.NodeSelectorOpNotIn:
		r.Operator = ares.OperatorNotIn
	case v1.NodeSelectorOpExists:
		r.Operator, r.Values = ares.OperatorExists, nil
	case v1.NodeSelectorOpDoesNotExist:
		r.Operator, r.Values = ares.OperatorDoesNotExist, nil
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		// Gt and Lt compare whole numbers, and exclude the number itself.
		n, err := strconv.Atoi(strings.Join(values, ""))
		if err != nil {
			return r, false
		}
		r.Operator, r.Values = ares.OperatorAtLeast, []string{strconv.Itoa(n + 1)}
		if operator == v1.NodeSelectorOpLt {
			r.Operator, r.Values = ares.OperatorAtMost, []string{strconv.Itoa(n - 1)}
		}
	default:
		return r, false
	}
	return r, true
}
