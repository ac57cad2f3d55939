package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// jobSpec reads the spec of a job.
func jobSpec(in *arguments) ares.Spec {
	s := ares.Spec{
		Name: in.text("name", in.first()), Image: in.text("image", ""), Tenant: in.text("tenant", ""), Queue: in.text("queue", ""), Labels: in.pairs("labels"), Members: in.number("members", 1),
		GPUs: in.number("gpus", 0), GPUMilli: in.number("gpu-milli", 0), GPUMemoryMB: in.number("gpu-memory-mb", 0),
		CPUs: in.number("cpus", 0), CPUMilli: int32(in.number("cpu-milli", 0)), MemoryMB: in.number("memory-mb", 0),
		GPUModel: in.text("model", ""), AcceleratorType: in.text("type", ""), MIGProfile: in.text("mig-profile", ""),
		NUMAPolicy: in.text("numa-policy", ""), Mode: ares.Mode(in.text("mode", "")),
		Constraints: &ares.Placement{
			RequiredLevel: in.text("required-level", ""), NodeSelector: in.pairs("selector"), NodeRequirements: in.requirements("node-requirements"), Regions: in.list("regions"),
			Strategy: in.text("strategy", ""), NetworkBandwidth: in.text("bandwidth", ""),
			PreferredLevel: in.text("preferred-level", ""), PreferredDomain: in.text("preferred-domain", ""), Tolerations: in.list("tolerations"),
			NodeAffinity: in.list("node-affinity"), PreferredNodeAffinity: in.list("preferred-node-affinity"), Affinity: in.list("affinity"), AntiAffinity: in.list("anti-affinity"),
			PreferredAntiAffinity: in.list("preferred-anti-affinity"),
		},
		After: in.list("after"), MinMembers: in.number("min-members", 0),
		Array: ares.Array{Count: in.number("array", 0), Parallelism: in.number("parallelism", 0)},
	}
	s.EditPlacement().LatencySensitive, s.AllowMixedModels = in.hasFlag("latency-sensitive"), in.hasFlag("allow-mixed-models")
	s.EditPlacement().Network = in.text("network", "")
	p := s.EditPlacement()
	p.Stdin, p.TTY, p.ContainerRoot = in.hasFlag("stdin"), in.hasFlag("tty"), in.hasFlag("container-root")
	if level := in.number("priority", -1); level >= 0 {
		s.Priority = &level
	}
	if in.hasFlag("no-gang") {
		s.Gang = new(false)
	}
	if r := in.number("max-retries", -1); r >= 0 {
		s.Retry.MaxRetries = &r
	}
	if g := in.number("grace-seconds", -1); g >= 0 {
		s.GraceSeconds = &g
	}
	s.MaxRuntimeMinutes, s.Checkpoint.Enabled = in.number("max-runtime-minutes", 0), in.hasFlag("checkpoint")
	if in.hasFlag("preemptible") {
		s.Preemptible = new(true)
	}
	if in.hasFlag("not-preemptible") {
		s.Preemptible = new(false)
	}
	s.Retry.InitialBackoffSeconds, s.MaxQueueMinutes = float64(in.number("backoff-seconds", 10)), in.number("max-queue-minutes", 0)
	return s
}

// setDeadline sets the deadline of a job, relative to the current time.
func setDeadline(w *Cluster, in *arguments, s *ares.Spec) error {
	text := in.text("deadline", "")
	if text == "" {
		return nil
	}
	within, err := time.ParseDuration(text)
	s.Deadline = w.Now.Add(within)
	return err
}

// setStart sets the start conditions of a job: hold, begin=1h from now, dependency=(afterok:a,singleton), unmet=wait.
func setStart(w *Cluster, in *arguments, s *ares.Spec) error {
	c := ares.StartConditions{Hold: in.hasFlag("hold"), Unmet: ares.UnmetPolicy(in.text("unmet", ""))}
	if text := in.text("begin", ""); text != "" {
		within, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		c.Begin = w.Now.Add(within)
	}
	if list := in.list("dependency"); len(list) > 0 {
		var err error
		if c.Dependencies, err = ares.ParseDependencies(strings.Join(list, ",")); err != nil {
			return err
		}
	}
	if c.Hold || !c.Begin.IsZero() || len(c.Dependencies) > 0 {
		s.Start = &c
	}
	return nil
}

// doHold holds a job, and doUnhold releases it.
func doHold(w *Cluster, in *arguments) (string, error) { return setHold(w, in, true) }

func doUnhold(w *Cluster, in *arguments) (string, error) { return setHold(w, in, false) }

// doUpdate changes the priority or the time limit of a waiting job.
func doUpdate(w *Cluster, in *arguments) (string, error) {
	var u ares.JobUpdate
	if p := in.number("priority", -1); p >= 0 {
		u.Priority = &p
	}
	if m := in.number("max-runtime-minutes", -1); m >= 0 {
		u.MaxRuntimeMinutes = &m
	}
	return "", w.UpdateRun(in.job(), func(j *ares.Job, r *ares.Run) error {
		_, err := r.Update(j, u, "ann", w.Now)
		return err
	})
}

func setHold(w *Cluster, in *arguments, held bool) (string, error) {
	return "", w.UpdateRun(in.job(), func(j *ares.Job, r *ares.Run) error {
		_, err := r.SetHold(j, held, "ann", w.Now)
		return err
	})
}

// doJob submits a job. With count=N, doJob submits N equal jobs with the names NAME000, NAME001 and so
// on.
func doJob(w *Cluster, in *arguments) (string, error) {
	count := in.number("count", 0)
	spec, runtime := jobSpec(in), in.text("runtime", "")
	if err := errors.Join(setDeadline(w, in, &spec), setStart(w, in, &spec)); err != nil {
		return "", err
	}
	ids := []ares.JobID{ares.JobID(in.first())}
	if count > 0 {
		ids = ids[:0]
	}
	for i := range count {
		ids = append(ids, ares.JobID(fmt.Sprintf("%s%03d", in.first(), i)))
	}
	trusted := in.hasFlag("trusted")
	for _, id := range ids {
		w.submit(id, spec, trusted)
		if runtime == "" {
			continue
		}
		d, err := time.ParseDuration(runtime)
		if err != nil {
			return "", err
		}
		w.SetRuntime(id, d)
	}
	return "", nil
}

// doEstimate sets the runtime estimate of a job.
func doEstimate(w *Cluster, in *arguments) (string, error) {
	p := &ares.RuntimePredicted{Job: in.job(), Basis: "script", Samples: in.number("samples", 1)}
	p.Own = in.number("own", p.Samples)
	p.Doubt = in.number("doubt", 0)
	var err error
	if p.P50, err = time.ParseDuration(in.text("p50", "0s")); err != nil {
		return "", err
	}
	if p.P90, err = time.ParseDuration(in.text("p90", p.P50.String())); err != nil {
		return "", err
	}
	w.PutEvents(ares.Event{Forecast: p})
	return "", nil
}

// doProtect protects a job from preemption, as a program that drives the engine from another system does.
func doProtect(w *Cluster, in *arguments) (string, error) {
	w.PutEvents(ares.Event{Protect: &ares.Protection{Job: in.job(), Why: in.text("why", "by the script")}})
	return "", nil
}

// doWhatIf prints what would happen to a job if it were submitted now.
func doWhatIf(w *Cluster, in *arguments) (string, error) {
	job := &ares.Job{Spec: jobSpec(in).WithDefaults(), ID: ares.JobID(in.first())}
	placing, why := engine.WhatIf(w.State, job, nil, w.Now)
	if why != nil {
		return fmt.Sprintf("%s would wait:\n%s", job.ID, formatBlockers(why.Refusal)+w.formatQueuePosition(why)), nil
	}
	return fmt.Sprintf("%s would run on %s\n", job.ID, formatSeats(placing.Seats)), nil
}

// doAdvance moves the clock.
func doAdvance(w *Cluster, in *arguments) (string, error) {
	d, err := time.ParseDuration(in.first())
	w.Now = w.Now.Add(d)
	return "", err
}

// doDecide makes one decision, commits it and prints it.
func doDecide(w *Cluster, _ *arguments) (string, error) {
	plan, err := w.Decide()
	if err != nil {
		return "", err
	}
	return formatPlan(w, plan), w.Commit(plan)
}

// doDecideUntilStable makes decisions until nothing changes, and prints the plans.
func doDecideUntilStable(w *Cluster, _ *arguments) (string, error) {
	plans, err := w.DecideUntilStable()
	var out strings.Builder
	for _, p := range plans {
		out.WriteString(formatPlan(w, p))
	}
	return out.String(), err
}

// doExplain prints why a job waits.
func doExplain(w *Cluster, in *arguments) (string, error) {
	e := engine.Explain(w.State, in.job(), w.Now)
	if len(e.Blockers) == 0 {
		return in.first() + " has no blockers\n", nil
	}
	return in.first() + " waits:\n" + formatBlockers(e.Refusal) + formatRemedies(&e) + w.formatQueuePosition(&e), nil
}

// doTenantUsage prints the resources that a tenant uses.
func doTenantUsage(w *Cluster, in *arguments) (string, error) {
	_, u, ok := w.State.Tenant(in.first())
	if !ok {
		return "", fmt.Errorf("there is no tenant %s", in.first())
	}
	return fmt.Sprintf("%s uses %d GPUs, %d/1000, %d MB of GPU memory, %d cores, %d MB, %d jobs\n",
		in.first(), u.GPUs, u.GPUMilli, u.GPUMemoryMB, u.WholeCPUs(), u.MemoryMB, u.Jobs), nil
}

// The function `requirements` parses node requirements in the same syntax as the flag --constraint.
func (w *arguments) requirements(key string) ares.NodeRequirements {
	list := w.list(key)
	if len(list) == 0 {
		return nil
	}
	rs, err := ares.ParseNodeRequirements(strings.Join(list, ","))
	if err != nil {
		w.err = err
	}
	return rs
}
