package ares

import (
	"slices"
	"strings"
	"time"
)

// StartConditions say what must happen before a job may start, apart from free capacity. Most jobs have none, so a Spec
// has only a pointer to them.
type StartConditions struct {
	// Hold is true for a job that is submitted held: it waits until it is released. See Run.IsHeld.
	Hold bool `json:"hold,omitzero"`
	// Begin is the earliest start of the first attempt. Zero means at once.
	Begin time.Time `json:"begin,omitzero"`
	// Dependencies must all be met.
	Dependencies []Dependency `json:"dependencies,omitzero"`
	// Unmet says what happens to the job when a dependency can never be met.
	Unmet UnmetPolicy `json:"unmet_dependency,omitzero"`
}

// UnmetPolicy says what happens to a job with a dependency that can never be met.
type UnmetPolicy string

// The unmet policies.
const (
	UnmetCancel UnmetPolicy = "cancel" // the job is cancelled, with the reason (default)
	UnmetWait   UnmetPolicy = "wait"   // the job waits, and its reason says why
)

// Dependency is one condition on another job.
type Dependency struct {
	Type DependencyType
	Job  JobID // "" for Singleton
}

// DependencyType says what must be true of the other job.
type DependencyType string

// The types of dependencies. They have the names and the meaning that Slurm gives them.
const (
	AfterOK    DependencyType = "afterok"    // the job has succeeded
	AfterAny   DependencyType = "afterany"   // the job has ended, in whatever way
	AfterNotOK DependencyType = "afternotok" // the job has ended without success
	AfterStart DependencyType = "after"      // the job has started, or has ended without a start
	AfterCorr  DependencyType = "aftercorr"  // for arrays: the element of the same index has succeeded
	Singleton  DependencyType = "singleton"  // every earlier job of the same name and user has ended
)

// dependencyTypes lists every type.
var dependencyTypes = []DependencyType{AfterOK, AfterAny, AfterNotOK, AfterStart, AfterCorr, Singleton}

// MaxDependencies is the maximum number of dependencies of a job, those in Spec.After included. It keeps the transaction that
// accepts the job within the store's limit.
const MaxDependencies = 64

// MaxBeginAhead is how far in the future a job may begin. A later time is most likely a mistake.
const MaxBeginAhead = 366 * 24 * time.Hour

// String returns the dependency as users write it, such as "afterok:job-x".
func (d Dependency) String() string {
	if d.Type == Singleton {
		return string(Singleton)
	}
	return string(d.Type) + ":" + string(d.Job)
}

// MarshalText implements encoding.TextMarshaler.
func (d Dependency) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Dependency) UnmarshalText(text []byte) error {
	list, err := ParseDependencies(string(text))
	if err == nil && len(list) > 1 {
		err = Errorf(Invalid, "%q: give one dependency", Clip(string(text)))
	}
	if err != nil {
		return err
	}
	*d = list[0]
	return nil
}

// ParseDependencies parses a list of dependencies as users write them, such as "afterok:job-x:job-y,singleton". Job
// references are not checked.
func ParseDependencies(list string) ([]Dependency, error) {
	var out []Dependency
	for part := range strings.SplitSeq(list, ",") {
		words := strings.Split(strings.TrimSpace(part), ":")
		t := DependencyType(words[0])
		switch {
		case !slices.Contains(dependencyTypes, t):
			return nil, Errorf(Invalid, "%q is no type of dependency: use one of %s, such as afterok:JOB", Clip(words[0]), joinNames(dependencyTypes))
		case t == Singleton && len(words) > 1:
			return nil, Errorf(Invalid, "singleton names no job: it waits for the earlier jobs of the same name and user")
		case t == Singleton:
			out = append(out, Dependency{Type: t})
		case len(words) == 1 || slices.Contains(words, ""):
			return nil, Errorf(Invalid, "%q names no job: use %s:JOB", Clip(part), t)
		}
		for _, id := range words[1:] {
			if strings.ContainsAny(id, "+?") {
				return nil, Errorf(Invalid, "%q: a delay after a dependency and the sign ? are not supported: separate jobs with a colon and dependencies with a comma", Clip(part))
			}
			out = append(out, Dependency{Type: t, Job: JobID(id)})
		}
	}
	return out, nil
}

// DependencyState says whether a dependency is met.
type DependencyState uint8

// The states of a dependency.
const (
	DependencyWaits DependencyState = iota // it may be met later
	DependencyMet
	DependencyNever // it can never be met
)

// State returns the state of a dependency on a job in the given phase. The argument `started` is true if the job has
// started at least once. Singleton has no such state.
func (t DependencyType) State(p Phase, started bool) DependencyState {
	if p == Returned && t != Singleton && (t != AfterStart || !started) {
		return DependencyNever // it may end in another cluster, of which this one learns nothing
	}
	met := false
	switch t {
	case AfterOK, AfterCorr:
		met = p == Succeeded
	case AfterNotOK:
		met = p.Final() && p != Succeeded
	case AfterAny:
		met = p.Final()
	case AfterStart:
		met = p.Final() || started
	case Singleton:
		met = true
	}
	switch {
	case met:
		return DependencyMet
	case p.Final():
		return DependencyNever
	}
	return DependencyWaits
}

// HasStarted reports whether the job has started at least once. An array has started when its first element was placed.
func (r *Run) HasStarted() bool {
	return r.Phase == Running || r.Ran > 0 || slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return !a.StartedAt.IsZero() })
}

// Awaits says in words what a dependency of this type waits for, as in "waits for job-x to succeed".
func (t DependencyType) Awaits() string {
	switch t {
	case AfterOK, AfterCorr:
		return "to succeed"
	case AfterNotOK:
		return "to end without success"
	case AfterStart:
		return "to start"
	case AfterAny, Singleton:
	}
	return "to end"
}

// CancelsUnmet reports whether the job is cancelled when one of its dependencies can never be met.
func (c *StartConditions) CancelsUnmet() bool { return c.Unmet != UnmetWait }

// check reports every mistake in the start conditions of a job.
func (c *StartConditions) check(s *Spec, p *Problems) {
	if c == nil {
		return
	}
	if n := len(c.Dependencies) + len(s.After); n > MaxDependencies {
		p.Add("start.dependencies", "at most %d dependencies, those of after included, got %d", MaxDependencies, n)
	}
	for _, d := range c.Dependencies {
		switch {
		case !slices.Contains(dependencyTypes, d.Type):
			p.Add("start.dependencies", "%q is no type of dependency: use one of %s, such as afterok:JOB", Clip(string(d.Type)), joinNames(dependencyTypes))
		case d.Type == Singleton && s.Name == "":
			p.Add("start.dependencies", "singleton needs a name: it waits for the earlier jobs of the same name and user; set name")
		case d.Type == Singleton && d.Job != "":
			p.Add("start.dependencies", "singleton names no job: it waits for the earlier jobs of the same name and user")
		case d.Type != Singleton && !ValidJobID(string(d.Job)):
			p.Add("start.dependencies", "%q is not a job ID: use %s: and the job_id a submission answered with", Clip(string(d.Job)), d.Type)
		case d.Type == AfterCorr && !s.IsArray():
			p.Add("start.dependencies", "aftercorr is for arrays, and this job is none: use afterok, or set array.count")
		}
	}
	if c.Unmet != "" && c.Unmet != UnmetCancel && c.Unmet != UnmetWait {
		p.Add("start.unmet_dependency", "%q is unknown: use %s or %s", Clip(string(c.Unmet)), UnmetCancel, UnmetWait)
	}
	if y := c.Begin.UTC().Year(); y < 1 || y > 9999 {
		p.Add("start.begin", "the year must be between 1 and 9999, got %d: leave begin out for none", y)
	}
}
