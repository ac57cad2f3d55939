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

// WhatIf is the difference that an edit would make. Hours and waiting times
// count from the time of the snapshot; a job that does not start within the
// horizon counts as waiting until its end.
type WhatIf struct {
	Taken    time.Time     `json:"taken"`
	Revision int64         `json:"-"`
	Horizon  float64       `json:"horizon_hours"`
	Changes  []string      `json:"changes"`
	Running  int           `json:"running"` // jobs, at the start
	Waiting  int           `json:"waiting"` // jobs and array elements
	Bases    map[Basis]int `json:"runtimes_by"`
	Now      FleetOutlook  `json:"now"`
	Then     FleetOutlook  `json:"then"`
	Tenants  []TenantShift `json:"tenants"`
	Jobs     []JobShift    `json:"jobs"` // jobs that start at another time, the largest change first
}

// FleetOutlook is the projection of one case for the whole fleet.
type FleetOutlook struct {
	GPUs int     `json:"gpus"`
	Use  float64 `json:"gpu_use_percent"`
	Outlook
}

// Outlook is the projection of one case, for the fleet or for a tenant.
type Outlook struct {
	GPUHours float64 `json:"gpu_hours"`
	Started  int     `json:"started"` // of the waiting jobs
	Ended    int     `json:"ended"`
	Late     int     `json:"late"`  // jobs that miss a deadline within the horizon
	Stops    int     `json:"stops"` // times a job was preempted or lost its node
	Wait     float64 `json:"mean_wait_seconds"`
}

// TenantShift is what changes for a tenant.
type TenantShift struct {
	Tenant  string  `json:"tenant"`
	Waiting int     `json:"waiting"`
	Now     Outlook `json:"now"`
	Then    Outlook `json:"then"`
	Sooner  int     `json:"sooner"` // jobs
	Later   int     `json:"later"`
}

// JobShift is a job that starts at another time.
type JobShift struct {
	Job    string     `json:"job_id"`
	Name   string     `json:"name"`
	Tenant string     `json:"tenant"`
	GPUs   float64    `json:"gpus"`
	Now    *time.Time `json:"starts_now,omitzero"`  // nil: not within the horizon
	Then   *time.Time `json:"starts_then,omitzero"` // as above
	Sooner float64    `json:"sooner_seconds"`       // negative if it starts later; a lower bound if one of both is nil
	Lost   bool       `json:"lost_its_place"`       // it was running and was stopped
}

// RunWhatIf runs a snapshot forward twice, unchanged and with an edit, and
// compares the two. assumed is the runtime of jobs without a prediction or a
// limit.
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

// configFor returns the configuration of a policy on a server: settings of its
// machines and of fair share stay the server's where the policy does not set
// them.
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
			n, err := run.Abandon(job, node, true, f.now)
			mustTransition(err)
			lost += n
		}
		if lost == 0 {
			continue
		}
		if attempt != nil && run.Current() == nil { // its other ranks end too
			fence := run.Last().Fence
			for _, h := range append([]ares.Held(nil), run.Last().Seats...) {
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

// compare compares every job that either projection has.
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

// countUnmadeElements counts the array elements that start in neither
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

// add counts a job; outcome is nil for an element that is never made.
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

// mean divides the sum of waiting times by the number of waiting jobs.
func (o *Outlook) mean(waiting int) {
	if waiting > 0 {
		o.Wait /= float64(waiting)
	}
}

// wait returns how long a job waits from the time of the snapshot on.
func (f *projection) wait(outcome *JobOutcome) time.Duration {
	began := f.until.Add(-f.horizon)
	if outcome == nil || outcome.Start.IsZero() {
		return f.horizon
	}
	return outcome.Start.Sub(began)
}

// compareJob adds a job that starts at another time, or is stopped.
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
