package service

import (
	"context"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

const (
	me          = "me"    // the caller, in the field user of a list request
	lastJob     = "@last" // the caller's newest job, in a reference
	minIDPrefix = 4       // characters of a job ID after "job-"
	maxMatches  = 20
)

// ResolveJob implements apipb.JobServiceServer.
func (d *jobService) ResolveJob(ctx context.Context, req *apipb.ResolveJobRequest) (*apipb.ResolveJobResponse, error) {
	states, err := phasesOf(req.GetState())
	if err != nil {
		return nil, err
	}
	r := resolver{Services: d.Services, to: visibilityOf(ctx), unique: req.GetUnique(), states: states}
	found, err := r.resolve(ctx, req.GetReference())
	if err != nil {
		return nil, err
	}
	resp := &apipb.ResolveJobResponse{JobId: string(found.id), Several: found.several, More: len(found.matches) > maxMatches}
	for _, e := range found.matches[:min(len(found.matches), maxMatches)] {
		resp.Matches = append(resp.Matches, &apipb.JobMatch{
			JobId: string(e.Job.ID), Name: e.Job.Name, TenantId: e.Job.Tenant, State: string(e.Run.Phase),
			SubmittedBy: e.Job.Owner, CreatedAt: apipb.Timestamp(e.Job.AcceptedAt),
		})
	}
	return resp, nil
}

// A resolver finds the job that a reference means, among the jobs that the caller may see.
type resolver struct {
	*Services
	to     Visibility
	unique bool         // never choose between jobs
	states []ares.Phase // preferred states of a job that is found by name; nil for all
	arrays bool         // find only arrays
}

// A resolution is the result of a reference: one job, or several jobs that match.
type resolution struct {
	id      ares.JobID
	job     *ares.Job      // nil only if id is "" or the job is an element of an archived array
	next    int            // for an array: the number of elements that were created
	matches []*cache.Entry // newest first, at most one more than maxMatches
	several bool           // other jobs have the name of this one
}

func resolvedTo(e *cache.Entry) resolution {
	return resolution{id: e.Job.ID, job: e.Job, next: e.Run.Next}
}

// The method `resolve` finds the job of a reference. An index at the end of the reference means an element of an array.
// If no array has this name, the index may be part of the name of another job.
func (r *resolver) resolve(ctx context.Context, reference string) (resolution, error) {
	name, index, ok := ares.CutElement(reference)
	if !ok {
		return r.find(ctx, reference)
	}
	arrays := *r
	arrays.arrays = true
	found, err := arrays.find(ctx, name)
	switch {
	case err == nil && found.id != "":
		return r.element(found, index)
	case ares.CodeOf(err) == ares.NotFound && !ares.ValidJobID(name):
		return r.find(ctx, reference)
	}
	return found, err
}

// The method `element` returns an element of an array.
func (r *resolver) element(array resolution, index int) (resolution, error) {
	if n := array.job.Array.Count; n == 0 {
		return resolution{}, ares.Errorf(ares.NotFound, "job %s is not an array, so it has no element %d", array.id, index).At("reference")
	} else if index >= n {
		return resolution{}, ares.Errorf(ares.NotFound, "array %s has no element %d: use an index from 0 to %d", array.id, index, n-1).At("reference")
	}
	id := ares.ElementID(array.id, index)
	if e := r.Cfg.View.Job(id); e != nil {
		return resolvedTo(e), nil
	}
	if r.Cfg.View.Job(array.id) != nil && index >= array.next {
		return resolution{}, ares.Errorf(ares.NotFound, "element %d of array %s has not been created yet: Ares creates an element when it places it", index, array.id).At("reference")
	}
	return resolution{id: id}, nil
}

// The method `find` finds the job of a reference without an index.
func (r *resolver) find(ctx context.Context, reference string) (resolution, error) {
	if ares.ValidJobID(reference) {
		return r.byID(ctx, ares.JobID(reference))
	}
	live, archived := r.live(), r.archived(ctx)
	for _, among := range []candidates{live, archived} {
		var found resolution
		var err error
		if reference == lastJob {
			found, err = r.newestOwn(among)
		} else {
			found, err = r.among(among, reference)
		}
		if err != nil || found.id != "" || len(found.matches) > 0 {
			return found, err
		}
	}
	return resolution{}, noSuchJob(reference)
}

// noSuchJob is the error for a reference that matches no job that the caller may see.
func noSuchJob(reference string) error {
	text := ares.Clip(reference)
	switch {
	case reference == lastJob:
		return ares.Errorf(ares.NotFound, "you have not submitted a job yet").At("reference")
	case strings.HasPrefix(reference, "job-") && len(reference) < len("job-")+minIDPrefix:
		return ares.Errorf(ares.NotFound, "there is no job %q: write at least %d characters of its ID after job-", text, minIDPrefix).At("reference")
	}
	return ares.Errorf(ares.NotFound, "there is no job %q: list your jobs with `ares job list --mine --all`", text).At("reference")
}

// The method `byID` finds the job with an ID. A caller that may not see the job gets the same answer as for a job that
// does not exist.
func (r *resolver) byID(ctx context.Context, id ares.JobID) (resolution, error) {
	if e := r.Cfg.View.Job(id); e != nil && r.to.job(e.Job) {
		return resolvedTo(e), nil
	}
	if snap, err := r.Cfg.Store.Job(ctx, id); err == nil && snap.Job != nil && r.to.job(snap.Job) {
		return resolvedTo(&cache.Entry{Job: snap.Job, Run: snap.Run}), nil
	}
	known, err := r.ArchivedJob(ctx, id)
	switch {
	case err != nil:
		return resolution{}, err
	case !r.to.job(known.Job):
		return resolution{}, store.NoJob(id)
	}
	return resolvedTo(known.Entry), nil
}

// The method `among` finds the job of a name or of the beginning of an ID. The result is empty if no candidate matches.
func (r *resolver) among(all candidates, reference string) (resolution, error) {
	ids, err := all.byPrefix(idPrefix(reference))
	if err != nil {
		return resolution{}, err
	}
	if r.unique {
		named, err := r.named(all, reference)
		return oneOf(ids, named), err
	}
	if strings.HasPrefix(reference, "job-") && len(ids) > 0 {
		return oneOf(ids, nil), nil
	}
	found, err := r.choose(all, reference)
	if err != nil || found.id != "" {
		return found, err
	}
	return oneOf(ids, nil), nil
}

// The method `named` returns the jobs of a name in one of the preferred states, or in any state if there is none.
func (r *resolver) named(all candidates, name string) ([]*cache.Entry, error) {
	if r.states != nil {
		if found, err := all.byName(name, "", r.states, maxMatches+1); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return all.byName(name, "", nil, maxMatches+1)
}

// The method `choose` returns the newest of the caller's jobs of a name that have not ended. If there is none, it
// returns the newest job of this name.
func (r *resolver) choose(all candidates, name string) (resolution, error) {
	newest, err := all.byName(name, "", nil, 2)
	if err != nil || len(newest) == 0 {
		return resolution{}, err
	}
	own, err := all.byName(name, r.to.Who.Name, activePhases, 1)
	if err != nil {
		return resolution{}, err
	}
	found := resolvedTo(append(own, newest...)[0])
	found.several = len(newest) > 1
	return found, nil
}

var activePhases = slices.DeleteFunc(ares.Phases(), ares.Phase.Final)

// The method `newestOwn` returns the newest job that the caller submitted.
func (r *resolver) newestOwn(all candidates) (resolution, error) {
	found, err := all.byName("", r.to.Who.Name, nil, 1)
	if err != nil || len(found) == 0 {
		return resolution{}, err
	}
	return resolvedTo(found[0]), nil
}

// oneOf returns the only job of two lists, or all of their jobs if there are several, newest first.
func oneOf(a, b []*cache.Entry) resolution {
	for _, e := range b {
		if !slices.ContainsFunc(a, func(x *cache.Entry) bool { return x.Job.ID == e.Job.ID }) {
			a = append(a, e)
		}
	}
	if len(a) == 1 {
		return resolvedTo(a[0])
	}
	slices.SortFunc(a, func(x, y *cache.Entry) int { return cache.ByAcceptance(y.Job, x.Job) })
	return resolution{matches: a}
}

// idPrefix returns the beginning of a job ID that a reference may be, with "job-". It returns "" if no job ID begins so.
func idPrefix(reference string) string {
	digits := strings.TrimPrefix(reference, "job-")
	if len(digits) < minIDPrefix || len(digits) > 24 || strings.Trim(digits, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return ""
	}
	return "job-" + digits
}

// The type `candidates` finds jobs, live or archived, that the caller may see. The lists are ordered newest first. An
// empty name or owner does not restrict the jobs, and states that are nil do not either. No element of an array is found
// by its name.
type candidates struct {
	byPrefix func(prefix string) ([]*cache.Entry, error)
	byName   func(name, owner string, states []ares.Phase, limit int) ([]*cache.Entry, error)
}

// The method `live` returns the candidates among the live jobs.
func (r *resolver) live() candidates {
	visible := func(j *ares.Job) bool { return (!r.arrays || j.IsArray()) && r.to.job(j) }
	search := func(wanted func(*ares.Job) bool, states []ares.Phase, limit int) (out []*cache.Entry, _ error) {
		r.Cfg.View.Search(func(j *ares.Job) bool { return wanted(j) && visible(j) }, func(e *cache.Entry) bool {
			if states == nil || slices.Contains(states, e.Run.Phase) {
				out = append(out, e)
			}
			return len(out) < limit
		})
		return out, nil
	}
	return candidates{
		byPrefix: func(prefix string) ([]*cache.Entry, error) {
			if prefix == "" {
				return nil, nil
			}
			return search(func(j *ares.Job) bool { return strings.HasPrefix(string(j.ID), prefix) }, nil, maxMatches+1)
		},
		byName: func(name, owner string, states []ares.Phase, limit int) ([]*cache.Entry, error) {
			return search(func(j *ares.Job) bool {
				return j.ArrayOf == "" && (name == "" || j.Name == name) && (owner == "" || j.Owner == owner)
			}, states, limit)
		},
	}
}

// The method `archived` returns the candidates in history. Elements of arrays are not among them.
func (r *resolver) archived(ctx context.Context) candidates {
	read := func(f history.Filter) (out []*cache.Entry, err error) {
		if r.Cfg.Accounting == nil {
			return nil, nil
		}
		f.Within = r.to.scopes(roles.JobRead)
		page, _, err := r.Cfg.Accounting.History.Jobs(ctx, f)
		for i := range page {
			if !r.arrays || page[i].Job.IsArray() {
				out = append(out, &cache.Entry{Job: &page[i].Job, Run: page[i].Run})
			}
		}
		return out, err
	}
	return candidates{
		byPrefix: func(prefix string) ([]*cache.Entry, error) {
			if prefix == "" {
				return nil, nil
			}
			return read(history.Filter{IDPrefix: prefix, Limit: maxMatches + 1})
		},
		byName: func(name, owner string, states []ares.Phase, limit int) ([]*cache.Entry, error) {
			if states != nil && !slices.ContainsFunc(states, ares.Phase.Final) {
				return nil, nil // every archived job has ended
			}
			return read(history.Filter{ExactName: name, User: owner, Phases: states, Limit: limit})
		},
	}
}

// phasesOf reads the states of a request. Each text may contain several states, separated by commas.
func phasesOf(states []string) (out []ares.Phase, err error) {
	for _, s := range states {
		for word := range strings.SplitSeq(s, ",") {
			if word = strings.TrimSpace(word); word == "" {
				continue
			}
			p, err := ares.ParsePhase(ares.Clip(word))
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}
