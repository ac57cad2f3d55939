package admission

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/policy"
	"github.com/ares-scheduler/ares/store"
)

// Admission accepts jobs. If a request is repeated, Admission does not accept a second job. Every server has one
// Admission.
//
// A spec exists in three forms: submitted, stored and effective. The submitted spec is the spec
// that the client sent, and its digest identifies the request. The stored spec adds the settings
// of the tenant, this server and the policies; it is written to the store. The effective spec is
// the stored spec with all defaults filled in. Limits and policies are checked against the
// effective spec, which is computed again whenever the job is read.
type Admission struct {
	Store *store.Store
	View  *cache.View
	Now   func() time.Time
	// MinLostAfter is the smallest lost_after that a job may request. MinLostAfter equals the TTL of
	// sessions.
	MinLostAfter time.Duration
	// MaxQueue limits the waiting jobs of all tenants together. If MaxQueue is 0, there is no
	// limit.
	MaxQueue int
	// Feasibility determines which jobs the cluster can never run. Feasibility may be nil.
	Feasibility *Feasibility
	// DefaultCPUs and DefaultMemoryMB are the requests of a job that requests no whole GPUs and leaves them out. Without a request, a job
	// would be neither limited on its node nor counted, so any number of such jobs would fit on one node.
	DefaultCPUs     int
	DefaultMemoryMB int
	// Hub is true for the servers of a hub. A hub has no nodes of its own, and the IDs of its jobs differ from those of every member.
	Hub bool
	// NoGangs rejects jobs with several members.
	NoGangs bool
	// Predict estimates the runtime of a job. Predict may be nil.
	Predict func(*ares.Job) ares.RuntimePredicted
	// DeadlinePolicy says whether to accept a job that will probably miss its deadline.
	DeadlinePolicy DeadlinePolicy
	// Policies are the users' rules for submitted jobs. Policies may be nil.
	Policies *Policies
	// Secrets finds the secrets that a job refers to. If Secrets is nil, no job may refer to a secret.
	Secrets SecretFinder
	// Code finds the code that a job refers to. If Code is nil, no job may refer to code.
	Code CodeFinder
	// Notify checks the notifications that a job asks for. If Notify is nil, no job may ask for one.
	Notify NotifyChecker
	// The cache Seen remembers requests that any server accepted recently. It may be nil.
	Seen SeenCache
}

// Accepted is the answer to a submission.
type Accepted struct {
	ID        ares.JobID
	Duplicate bool      // the same request was accepted before
	Made      *ares.Job // the new job, or nil for a duplicate
	Phase     ares.Phase
	Warnings  []string // about the new job
	Err       error
}

// Request is one submission. The caller must have resolved the tenant, so Submitted.Tenant must not
// be empty.
type Request struct {
	Submitted ares.Spec
	Owner     string
	// Trusted is true if the authenticated caller is a platform administrator. Only then may the job run where jobs are not isolated.
	Trusted bool
	// Sees reports whether the caller may see a job of its tenant. It is nil for a caller that may see all of them. A job that
	// the caller may not see counts as unknown, and the counts of the whole tenant are left out of errors.
	Sees func(ctx context.Context, id ares.JobID) bool

	retryOf    ares.JobID // the finished job that this submission retries, or ""
	identified bool       // digest and named are set, and Submitted has a request ID
	digest     ares.Digest
	named      bool // the client chose the request ID, so it may repeat the request
}

// The type `candidate` is a job that passed all checks and is ready to be stored.
type candidate struct {
	store.Creation
	before   *Accepted // the answer, if the same request was accepted before; the rest is empty then
	verdict  policy.Verdict
	warnings []string
}

// Retry submits a finished job again, as a new job that refers to the old one. The new job is accepted even if the
// deadline of the old job has passed. The new job is trusted only if the old job was trusted too: an administrator who
// retries a tenant's job did not write its command. Of the argument `by`, only the caller and the request ID are used.
func (a *Admission) Retry(ctx context.Context, id ares.JobID, by Request) (Accepted, error) {
	snap, err := a.Store.Job(ctx, id)
	if err != nil {
		return Accepted{}, err
	}
	if snap.Tombstone != nil {
		return Accepted{}, ares.Errorf(ares.Conflict, "job %s was archived: submit its spec again", id)
	}
	if !snap.Run.Phase.Final() {
		return Accepted{}, ares.Errorf(ares.Conflict, "job %s is %s, but only a finished job can be retried: cancel it first", id, snap.Run.Phase)
	}
	spec := withoutPolicyLabels(snap.Job)
	spec.Start = startOfRetry(spec.Start)
	if spec.RequestID = by.Submitted.RequestID; spec.RequestID == "" {
		spec.RequestID = fmt.Sprintf("retry-of-%s-%s", id, rand.Text())
	}
	out := a.Submit(ctx, Request{Submitted: spec, Owner: by.Owner, Trusted: snap.Job.Trusted && by.Trusted, Sees: by.Sees, retryOf: id})[0]
	return out, out.Err
}

// Draft returns the job that a submission would become now, with its effective
// spec. Draft stores nothing.
func (a *Admission) Draft(ctx context.Context, r Request) (*ares.Job, error) {
	c, err := a.prepare(ctx, &r, true, &batchCounts{by: map[string]int{}})
	if err != nil {
		return nil, err
	}
	c.Job.Spec = c.Job.WithDefaults()
	return c.Job, nil
}

// maxTries is how many times a request is prepared before it is rejected. A request is prepared
// again if its tenant, its queue or a dependency changed while the job was being stored.
const maxTries = 5

// Submit accepts jobs. Submit prepares each request, stores all new jobs in one call, and returns after they are
// committed. Each request gets its own answer. If a request's tenant, queue or dependency changed in the
// meantime, Submit prepares the request again. It then reads the store's records, because the cache may lag
// behind. No other function repeats submissions. Submit does not use store.Retry, because store.Retry would
// repeat all requests. Only the requests with a conflict need to be repeated. Submit completes the given requests, so they must not be
// used again.
func (a *Admission) Submit(ctx context.Context, requests ...Request) []Accepted {
	out := make([]Accepted, len(requests))
	open := make([]int, len(requests))
	for i := range open {
		open[i] = i
	}
	for try := 0; len(open) > 0 && try < maxTries; try++ {
		var creations []store.Creation
		var candidates []candidate
		var index []int
		batch := &batchCounts{by: map[string]int{}, lookUp: try == 0 && len(requests) <= maxSeenLookups}
		for _, i := range open {
			c, err := a.prepare(ctx, &requests[i], try > 0, batch)
			if err != nil {
				out[i] = a.reject(ctx, &requests[i], err)
				continue
			}
			if c.before != nil {
				out[i] = *c.before
				continue
			}
			creations, candidates, index = append(creations, c.Creation), append(candidates, c), append(index, i)
		}
		open = nil
		for k, c := range a.Store.Create(ctx, creations) {
			if i := index[k]; c.Stale {
				open = append(open, i)
			} else {
				out[i] = a.answer(&requests[i], &candidates[k], &c)
			}
		}
	}
	for _, i := range open { // the code is not Conflict, because the request is valid and clients repeat it after a pause
		out[i] = Accepted{Err: ares.Errorf(ares.Exhausted, "the job was not stored, because tenant %s, its queue, or a job listed in `after` changed %d times: submit the job again in a second",
			requests[i].Submitted.Tenant, maxTries)}
	}
	return out
}

// The method `answer` returns the answer to a request whose job the store has created, found or rejected.
func (a *Admission) answer(r *Request, job *candidate, c *store.Created) Accepted {
	out := Accepted{ID: c.ID, Duplicate: c.Duplicate, Phase: c.Phase, Err: c.Err}
	switch {
	case c.Err != nil:
		return out
	case !c.Duplicate:
		out.Made, out.Warnings, out.Phase = job.Job, job.warnings, ares.Pending
		if len(job.verdict.Findings) > 0 {
			a.reportAccepted(job)
		}
	case c.Phase == "": // a duplicate that is live
		out.Phase = ares.Pending
		if e := a.View.Job(c.ID); e != nil {
			out.Phase = e.Run.Phase
		}
	}
	if a.Seen != nil {
		a.Seen.MarkSeen(c.ID, r.digest)
	}
	return out
}

// The method `identify` validates the submitted spec once, and identifies the request.
func (r *Request) identify() error {
	if r.identified {
		return nil
	}
	if err := r.Submitted.Check(); err != nil {
		return err
	}
	r.digest, r.named = ares.DigestOf(r.Submitted), r.Submitted.RequestID != ""
	if !r.named {
		r.Submitted.RequestID = rand.Text()
	}
	r.identified = true
	return nil
}

// The method `prepare` runs all checks on a request, from the submitted spec to the job that is stored. The
// method first validates the spec, and then identifies the request by a request ID and by the digest of the
// submitted spec. If the argument `fresh` is true, the method reads the store instead of the cache. The checks
// run in the order in which their errors should be reported. The method skips checks that a job does not need,
// for example the dependency check for a job without dependencies.
func (a *Admission) prepare(ctx context.Context, r *Request, fresh bool, batch *batchCounts) (c candidate, err error) {
	if err = r.identify(); err != nil {
		return c, err
	}
	if a.Seen != nil && r.named && batch.lookUp {
		if before, ok := a.seenBefore(ctx, r); ok {
			c.before = &before
			return c, nil
		}
	}
	job := &ares.Job{Spec: r.Submitted, Digest: r.digest, Owner: r.Owner, RetryOf: r.retryOf, Trusted: r.Trusted}
	stored := &job.Spec
	level := readLevel(stored, r.retryOf != "")
	tenant, queue, err := a.findTenantAndQueue(ctx, stored, fresh)
	if err != nil {
		return c, err
	}
	if stored.GPUs == 0 {
		if stored.MilliCPUs() == 0 {
			stored.CPUs = a.DefaultCPUs
		}
		stored.MemoryMB = cmp.Or(stored.MemoryMB, a.DefaultMemoryMB)
	}
	if err = a.Feasibility.check(ctx, stored, r.Trusted); err != nil { // may split the job into members
		return c, err
	}
	if err = a.setLostAfter(stored, tenant, r.retryOf != ""); err != nil {
		return c, err
	}
	effective := stored.WithDefaults()
	if err = a.checkLimits(tenant, queue, &effective, batch, r.Sees == nil); err != nil {
		return c, explainLevel(err, level)
	}
	if a.Policies != nil && a.Policies.set.Load().AsksJobs() {
		if c.verdict, err = a.evaluatePolicies(ctx, tenant, &effective, r.Owner, batch); err != nil {
			return c, err
		}
		addPolicyLabels(stored, &c.verdict)
	}
	if len(stored.After)+len(stored.Secrets)+len(stored.CodeDigest)+len(stored.Notify) > 0 || stored.Start != nil {
		if c.After, err = a.resolveReferences(ctx, r, stored, fresh); err != nil {
			return c, err
		}
	}
	c.TenantRevision = tenant.Revision
	job.ID, job.AcceptedAt, job.Notes = a.jobID(stored), a.Now(), c.verdict.Notes
	c.Job = job
	if !stored.Deadline.IsZero() && r.retryOf == "" {
		if c.warnings, err = a.checkDeadline(c.Job); err != nil {
			return c, err
		}
	}
	a.addWarnings(&c, level)
	if a.View.Job(c.Job.ID) == nil { // a repeated request is already counted
		batch.all++
		batch.by[tenant.ID]++
		batch.by[queue.ID()]++
	}
	return c, nil
}

// jobID returns the ID of the job that a submission creates.
func (a *Admission) jobID(spec *ares.Spec) ares.JobID {
	if a.Hub {
		return ares.NewHubJobID(cmp.Or(spec.Tenant, ares.DefaultTenant), spec.RequestID)
	}
	return spec.JobID()
}

// setLostAfter sets the lost_after of a job. The value is stored even if it is the default. A server of another version,
// with another default, then sends the same value to the node's supervisor as the leader uses. Otherwise a leader could
// take a rank back before its process has ended.
//
// The value of a retry is the stored one of the old job. If the minimum was raised since then, the value is raised to the minimum.
func (a *Admission) setLostAfter(stored *ares.Spec, tenant *ares.Tenant, retry bool) error {
	least := int(a.MinLostAfter / time.Second)
	if asked := stored.LostAfterSeconds; asked != 0 && asked < least && !retry {
		return ares.Errorf(ares.Invalid, "lost_after_seconds: must be between %d and %d, got %d", least, ares.MaxLostAfterSec, asked).At("lost_after_seconds")
	}
	stored.LostAfterSeconds = max(cmp.Or(stored.LostAfterSeconds, tenant.LostAfterSecs, int(ares.DefaultLostAfter/time.Second)), least)
	return nil
}

// The method `reject` answers a request that fails the checks now. If the same request was accepted before, the
// method returns that job, because limits may have changed since then.
func (a *Admission) reject(ctx context.Context, r *Request, err error) Accepted {
	if code := ares.CodeOf(err); r.named && (code.Rejects() || code == ares.Exhausted) {
		if before, ok := a.acceptedBefore(ctx, r); ok {
			return before
		}
	}
	a.reportRejected(err, r.Owner)
	return Accepted{Err: err}
}

// acceptedBefore asks the store whether the same request was accepted before.
func (a *Admission) acceptedBefore(ctx context.Context, r *Request) (Accepted, bool) {
	id := a.jobID(&r.Submitted)
	snap, err := a.Store.Job(ctx, id)
	switch {
	case err != nil:
	case snap.Tombstone != nil && snap.Tombstone.Digest == r.digest:
		return Accepted{ID: id, Duplicate: true, Phase: snap.Tombstone.Phase}, true
	case snap.Job != nil && snap.Job.Digest == r.digest:
		return Accepted{ID: id, Duplicate: true, Phase: snap.Run.Phase}, true
	}
	return Accepted{}, false
}

// SetHold holds a waiting job, or releases it. It reports whether that changed the job.
func (a *Admission) SetHold(ctx context.Context, id ares.JobID, held bool, by string) (changed bool, run ares.Run, err error) {
	return a.Store.SetHold(ctx, id, held, by, a.Now())
}

// Cancel asks a job to stop. If the caller names phases, the job is stopped only if it is in one of them.
func (a *Admission) Cancel(ctx context.Context, id ares.JobID, by string, only ...ares.Phase) (ares.Run, error) {
	grace := time.Duration(0)
	if e := a.View.Job(id); e != nil {
		grace = e.Job.Grace()
	}
	return a.Store.RequestStop(ctx, id, ares.Stop{Why: ares.StopCancel, By: by, At: a.Now(), Grace: grace}, only...)
}
