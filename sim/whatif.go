package sim

import (
	"cmp"
	"context"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// WhatIf describes the effect that an edit of the cluster would have. Hours and waiting times count
// from the time of the snapshot. A job that does not start within the horizon counts as waiting
// until the end of the horizon.
type WhatIf struct {
	Taken    time.Time     `json:"taken"`
	Revision int64         `json:"-"`
	Horizon  float64       `json:"horizon_hours"`
	Changes  []string      `json:"changes"`
	Running  int           `json:"running"` // running jobs at the start
	Waiting  int           `json:"waiting"` // jobs and array elements
	Bases    map[Basis]int `json:"runtimes_by"`
	Now      FleetOutlook  `json:"now"`
	Then     FleetOutlook  `json:"then"`
	Tenants  []TenantShift `json:"tenants"`
	Jobs     []JobShift    `json:"jobs"` // jobs that start at another time, largest change first
}

// FleetOutlook is the projection for the whole cluster, with or without the edit.
type FleetOutlook struct {
	GPUs int     `json:"gpus"`
	Use  float64 `json:"gpu_use_percent"`
	Outlook
}

// Outlook is the projection for the cluster or for one tenant, with or without the edit.
type Outlook struct {
	GPUHours float64 `json:"gpu_hours"`
	Started  int     `json:"started"` // of the waiting jobs
	Ended    int     `json:"ended"`
	Late     int     `json:"late"`  // jobs that miss a deadline within the horizon
	Stops    int     `json:"stops"` // times a job was preempted or lost its node
	Wait     float64 `json:"mean_wait_seconds"`
}

// TenantShift describes how an edit changes a tenant's projection.
type TenantShift struct {
	Tenant  string  `json:"tenant"`
	Waiting int     `json:"waiting"`
	Now     Outlook `json:"now"`
	Then    Outlook `json:"then"`
	Sooner  int     `json:"sooner"` // number of jobs that start sooner
	Later   int     `json:"later"`
}

// JobShift describes a job whose start time changes because of the edit.
type JobShift struct {
	Job    string     `json:"job_id"`
	Name   string     `json:"name"`
	Tenant string     `json:"tenant"`
	GPUs   float64    `json:"gpus"`
	Now    *time.Time `json:"starts_now,omitzero"`  // nil if not within the horizon
	Then   *time.Time `json:"starts_then,omitzero"` // nil if not within the horizon
	Sooner float64    `json:"sooner_seconds"`       // negative if the job starts later; a lower bound if one of the two times is nil
	Lost   bool       `json:"lost_its_place"`       // the job was running and was stopped
}

// RunWhatIf simulates the future of a snapshot twice, first without an edit and then with it. It
// compares the two projections. The parameter `assumed` is the runtime of jobs that have neither a
// prediction nor a time limit.
func RunWhatIf(ctx context.Context, s *Snapshot, e *Edit, horizon, assumed time.Duration) (*WhatIf, error) {
	now := newProjection(s, s.Config, horizon, assumed)
	now.resumeJobs()
	now.step()
	cfg := s.Config
	if e.Config != nil {
		cfg = configFor(*e.Config, s.Config)
	}
	then := newProjection(s, cfg, horizon, assumed)
	events, descriptions, err := e.resolve(then.state)
	if err != nil {
		return nil, err
	}
	then.resumeJobs()
	then.loseNodes(e.Remove)
	then.batch = append(then.batch, events...)
	then.step()
	w := &WhatIf{Taken: s.Taken, Revision: s.Batch.Revision, Horizon: horizon.Hours(), Changes: descriptions, Bases: map[Basis]int{}}
	w.Now.GPUs, w.Then.GPUs = countGPUs(now.state), countGPUs(then.state)
	for _, f := range []*projection{now, then} {
		if err := f.run(ctx); err != nil {
			return nil, err
		}
	}
	w.compare(now, then)
	return w, nil
}

// configFor returns the engine configuration for a simulated policy on a given server. Some
// settings of a policy concern machines or fair share. If the policy has the default value of such
// a setting, the server's value is used.
func configFor(policy, server config.Config) config.Config {
	usual := config.Default()
	keep(&policy.ThermalLimit, usual.ThermalLimit, server.ThermalLimit)
	keep(&policy.ThermalMargin, usual.ThermalMargin, server.ThermalMargin)
	keep(&policy.AgeingStep, usual.AgeingStep, server.AgeingStep)
	keep(&policy.HalfLife, usual.HalfLife, server.HalfLife)
	if len(policy.ModelWeights) == 0 {
		policy.ModelWeights = server.ModelWeights
	}
	return policy
}

func keep[T comparable](mine *T, usual, server T) {
	if *mine == usual {
		*mine = server
	}
}

// loseNodes ends the attempts on removed nodes. A lost job starts over elsewhere,
// unless it is an at_most_once job.
func (f *projection) loseNodes(nodes []string) {
	if len(nodes) == 0 {
		return
	}
	for job := range f.state.Jobs() {
		run, _ := f.state.Run(job.ID)
		attempt, lost := run.Current(), 0
		for _, node := range nodes {
			n, err := run.ForceRelease(job, node, true, f.now)
			mustTransition(err)
			lost += n
		}
		if lost == 0 {
			continue
		}
		if attempt != nil && run.Current() == nil { // the other ranks end too
			fence := run.Last().Fence
			for _, h := range append([]ares.SeatStatus(nil), run.Last().Seats...) {
				mustTransition(run.Release(fence, h.Rank))
			}
			outcome := f.outcome(job)
			f.countGPUHours(outcome)
			outcome.Start = time.Time{}
			if outcome.Stops++; run.Phase.Final() {
				outcome.End = f.now
			}
		}
		f.put(job, run)
	}
	f.flush()
}

// countGPUs counts the devices of connected nodes.
func countGPUs(s *engine.State) int {
	n := 0
	for v := range s.Nodes() {
		for i := range v.Node.Devices {
			if v.Session != nil && v.Node.Devices[i].Parent == "" {
				n++
			}
		}
	}
	return n
}

// This method compares every job that is in either projection.
func (w *WhatIf) compare(now, then *projection) {
	tenants := map[string]*TenantShift{}
	for _, id := range union(now.outcomes, then.outcomes) {
		a, b := now.outcomes[id], then.outcomes[id]
		job := cmp.Or(a, b).Job
		t := tenantShift(tenants, job.Tenant)
		waited := a == nil || !a.Ran
		if waited {
			w.Waiting++
			t.Waiting++
		} else {
			w.Running++
		}
		if basis := cmp.Or(basis(a), basis(b)); basis != "" {
			w.Bases[basis]++
		}
		for _, side := range []struct {
			f       *projection
			outcome *JobOutcome
			whole   *Outlook
			part    *Outlook
		}{{now, a, &w.Now.Outlook, &t.Now}, {then, b, &w.Then.Outlook, &t.Then}} {
			side.whole.add(side.f, side.outcome, job, waited)
			side.part.add(side.f, side.outcome, job, waited)
		}
		w.compareJob(now, then, id, t)
	}
	w.countUnmadeElements(now, then, tenants)
	for _, o := range []*FleetOutlook{&w.Now, &w.Then} {
		if o.GPUs > 0 {
			o.Use = 100 * o.GPUHours / (float64(o.GPUs) * w.Horizon)
		}
	}
	w.Now.mean(w.Waiting)
	w.Then.mean(w.Waiting)
	for _, t := range tenants {
		t.Now.mean(t.Waiting)
		t.Then.mean(t.Waiting)
		w.Tenants = append(w.Tenants, *t)
	}
	slices.SortFunc(w.Tenants, func(a, b TenantShift) int { return cmp.Compare(a.Tenant, b.Tenant) })
	slices.SortFunc(w.Jobs, func(a, b JobShift) int {
		return cmp.Or(cmp.Compare(max(b.Sooner, -b.Sooner), max(a.Sooner, -a.Sooner)), cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Job, b.Job))
	})
}

func tenantShift(tenants map[string]*TenantShift, name string) *TenantShift {
	if tenants[name] == nil {
		tenants[name] = &TenantShift{Tenant: name}
	}
	return tenants[name]
}

// countUnmadeElements counts the array elements that are created in neither
// projection.
func (w *WhatIf) countUnmadeElements(now, then *projection, tenants map[string]*TenantShift) {
	for job, run := range now.state.Jobs() {
		if !job.IsArray() || run != nil && run.Phase.Final() {
			continue
		}
		other, _ := then.state.Run(job.ID)
		made := other.Next
		if run != nil {
			made = max(made, run.Next)
		}
		n, t := job.Array.Count-made, tenantShift(tenants, job.Tenant)
		w.Waiting += n
		t.Waiting += n
		for _, o := range []*Outlook{&w.Now.Outlook, &w.Then.Outlook, &t.Now, &t.Then} {
			o.Wait += float64(n) * now.horizon.Seconds()
		}
	}
}

func union(a, b map[ares.JobID]*JobOutcome) []ares.JobID {
	var out []ares.JobID
	for id := range a {
		out = append(out, id)
	}
	for id := range b {
		if a[id] == nil {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func basis(f *JobOutcome) Basis {
	if f == nil {
		return ""
	}
	return f.Basis
}

// This method adds a job to the totals. The parameter `outcome` is nil for an array element that is
// never created.
func (o *Outlook) add(f *projection, outcome *JobOutcome, job *ares.Job, waited bool) {
	if outcome == nil {
		outcome = &JobOutcome{Job: job}
	}
	o.GPUHours += outcome.GPUHours
	o.Stops += outcome.Stops
	if !outcome.End.IsZero() {
		o.Ended++
	}
	if due := job.Deadline; !due.IsZero() && due.Before(f.until) && (outcome.End.IsZero() || outcome.End.After(due)) {
		o.Late++
	}
	if waited {
		if !outcome.Start.IsZero() {
			o.Started++
		}
		o.Wait += f.wait(outcome).Seconds()
	}
}

// This method divides the sum of waiting times by the number of waiting jobs.
func (o *Outlook) mean(waiting int) {
	if waiting > 0 {
		o.Wait /= float64(waiting)
	}
}

// This method returns how long a job waits, counted from the time of the snapshot.
func (f *projection) wait(outcome *JobOutcome) time.Duration {
	began := f.until.Add(-f.horizon)
	if outcome == nil || outcome.Start.IsZero() {
		return f.horizon
	}
	return outcome.Start.Sub(began)
}

// compareJob adds a job to the result if its start time changes, or if it is stopped.
func (w *WhatIf) compareJob(now, then *projection, id ares.JobID, t *TenantShift) {
	a, b := now.outcomes[id], then.outcomes[id]
	job := cmp.Or(a, b).Job
	sooner := now.wait(a) - then.wait(b)
	lost := b != nil && a != nil && b.Stops > a.Stops
	if sooner == 0 && !lost {
		return
	}
	switch {
	case sooner > 0:
		t.Sooner++
	case sooner < 0, lost:
		t.Later++
	}
	w.Jobs = append(w.Jobs, JobShift{
		Job: string(id), Name: job.Name, Tenant: job.Tenant, GPUs: float64(job.Members*max(1000*job.GPUs, job.GPUMilli)) / 1000,
		Now: start(a), Then: start(b), Sooner: sooner.Seconds(), Lost: lost,
	})
}

func start(f *JobOutcome) *time.Time {
	if f == nil || f.Start.IsZero() {
		return nil
	}
	return new(f.Start)
}
