package watch

import (
	"time"

	v1 "k8s.io/api/core/v1"

	ares "github.com/ares-scheduler/ares"
)

// Ended reports whether a pod uses nothing any more.
func Ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed || p.DeletionTimestamp != nil && p.Spec.NodeName == ""
}

// result returns how a pod ended, or nil if its status does not say so.
func result(p *v1.Pod) *ares.RankResult {
	if p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
		return nil
	}
	r := &ares.RankResult{Outcome: outcome(p), Reason: p.Status.Reason, StartedAt: started(p)}
	for i := range p.Status.ContainerStatuses {
		t := p.Status.ContainerStatuses[i].State.Terminated
		if t == nil {
			continue
		}
		r.EndedAt = later(r.EndedAt, t.FinishedAt.Time)
		if t.ExitCode != 0 && r.ExitCode == 0 {
			r.ExitCode, r.Signal = int(t.ExitCode), int(t.Signal)
		}
	}
	return r
}

// The kubelet writes these reasons into the status of a pod.
const (
	reasonDeadline  = "DeadlineExceeded"         // activeDeadlineSeconds is over
	reasonAdmission = "UnexpectedAdmissionError" // the device plugin of the node could not give the pod its devices
	reasonNodeLost  = "NodeLost"
)

// outcome tells a failure of the pod's program from one of its node, and from a pod that was stopped.
func outcome(p *v1.Pod) ares.Outcome {
	if p.Status.Phase == v1.PodSucceeded {
		return ares.OutcomeSucceeded
	}
	switch p.Status.Reason {
	case reasonDeadline:
		return ares.OutcomeTimeout
	case reasonAdmission, reasonNodeLost:
		return ares.OutcomeLost
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != v1.DisruptionTarget || c.Status != v1.ConditionTrue {
			continue
		}
		if c.Reason == "DeletionByTaintManager" || c.Reason == "DeletionByPodGC" {
			return ares.OutcomeLost
		}
		return ares.OutcomeStopped
	}
	if p.DeletionTimestamp != nil { // it was deleted, and its program does not exit with 0 when it is told to end
		return ares.OutcomeStopped
	}
	return ares.OutcomeFailed
}

// started returns when the first container of a pod started. Before that it is when the kubelet took the pod, and the
// zero time before the kubelet did.
func started(p *v1.Pod) (at time.Time) {
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i].State
		began := time.Time{}
		if s.Running != nil {
			began = s.Running.StartedAt.Time
		} else if s.Terminated != nil {
			began = s.Terminated.StartedAt.Time
		}
		if !began.IsZero() && (at.IsZero() || began.Before(at)) {
			at = began
		}
	}
	if at.IsZero() && p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
