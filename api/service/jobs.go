package service

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// jobService implements JobService.
type jobService struct {
	apipb.UnimplementedJobServiceServer
	*Services
}

// These are the statuses of a submission that did not create a new job.
const (
	Duplicate = "duplicate"
	refused   = "refused"
)

// SubmitJob implements apipb.JobServiceServer.
func (d *jobService) SubmitJob(ctx context.Context, req *apipb.SubmitJobRequest) (*apipb.SubmitJobResponse, error) {
	got := d.Cfg.Admission.Submit(ctx, d.request(ctx, specOf(ctx, req.GetJob())))[0]
	if got.Err != nil {
		return nil, got.Err
	}
	resp := &apipb.SubmitJobResponse{JobId: string(got.ID), Status: pipeline.StatusSubmitted, Message: "Job submitted successfully", State: string(got.Phase), Warnings: got.Warnings}
	if got.Duplicate {
		resp.Status, resp.Message = Duplicate, "This request was accepted before; it is the same job"
	}
	return resp, nil
}

// SubmitJobs implements apipb.JobServiceServer.
func (d *jobService) SubmitJobs(ctx context.Context, req *apipb.SubmitJobsRequest) (*apipb.SubmitJobsResponse, error) {
	resp := &apipb.SubmitJobsResponse{Results: make([]*apipb.SubmitResult, len(req.GetJobs()))}
	for i, got := range d.submitAll(ctx, req.GetJobs()) {
		r := &apipb.SubmitResult{JobId: string(got.ID), Status: pipeline.StatusSubmitted, Warnings: got.Warnings}
		switch {
		case got.Err != nil:
			r.JobId, r.Status = "", refused
			r.Error, r.Code = d.publicError(got.Err)
			_, _, f := pipeline.ErrorAnswer(got.Err)
			for _, p := range f.Details {
				r.Details = append(r.Details, &apipb.ErrorDetail{Field: p.Field, Message: p.Message})
			}
			resp.Refused++
		case got.Duplicate:
			r.Status = Duplicate
			resp.Duplicates++
		default:
			resp.Accepted++
		}
		resp.Results[i] = r
	}
	return resp, nil
}

// submitAll submits the jobs that the caller may submit, and returns one answer
// for each job of the batch.
func (d *jobService) submitAll(ctx context.Context, jobs []*apipb.JobSpec) []admission.Accepted {
	out := make([]admission.Accepted, len(jobs))
	var requests []admission.Request
	var index []int
	call, who := pipeline.CallOf(ctx), pipeline.IdentityOf(ctx)
	call.JobTenants = make([]string, len(jobs))
	for i, j := range jobs {
		where, err := pipeline.ScopeOfSpec(who, j)
		if call.JobTenants[i] = where.Tenant; err == nil {
			err = where.Allows(who, roles.JobSubmit)
		}
		if out[i].Err = err; err == nil {
			spec := j.Spec()
			spec.Tenant = where.Tenant
			requests, index = append(requests, d.request(ctx, spec)), append(index, i)
		}
	}
	for k, got := range d.Cfg.Admission.Submit(ctx, requests...) {
		out[index[k]] = got
	}
	return out
}

// specOf returns the job spec in a request. The spec's tenant is the one that the pipeline
// resolved.
func specOf(ctx context.Context, job *apipb.JobSpec) ares.Spec {
	spec := job.Spec()
	spec.Tenant = pipeline.CallOf(ctx).Tenant
	return spec
}

// The method `request` returns the submission of a spec by the caller.
func (d *Services) request(ctx context.Context, spec ares.Spec) admission.Request {
	who, to := pipeline.IdentityOf(ctx), visibilityOf(ctx)
	r := admission.Request{Submitted: spec, Owner: who.Name, Trusted: who.IsPlatformAdmin()}
	if !to.sees(spec.Tenant, "") {
		r.Sees = func(ctx context.Context, id ares.JobID) bool { return d.shows(ctx, to, id) }
	}
	return r
}

// publicError returns the public text and code of an error, to be included in
// an answer.
func (d *Services) publicError(err error) (message, code string) {
	out := apipb.ToStatus(err)
	c := ares.CodeOf(apipb.FromStatus(out))
	if c == ares.Internal {
		d.Cfg.Log.Error("a part of a call failed", "error", err)
	}
	return status.Convert(out).Message(), string(c)
}

// GetJob implements apipb.JobServiceServer.
func (d *jobService) GetJob(ctx context.Context, req *apipb.GetJobRequest) (*apipb.GetJobResponse, error) {
	snap, err := d.snapshot(ctx, req.GetJobId())
	if ares.CodeOf(err) == ares.NotFound && pipeline.CheckJobID(req.GetJobId()) == nil || snap.Tombstone != nil {
		return d.getRemembered(ctx, ares.JobID(req.GetJobId()), snap.Tombstone)
	}
	if err != nil {
		return nil, err
	}
	stale := ""
	if req.GetConsistent() {
		if stale, err = d.ownerState(ctx, &snap); err != nil {
			return nil, err
		}
	}
	to := visibilityOf(ctx)
	job := d.hideStored(to, NewJob(snap.Job, &snap.Run, snap.Progress))
	job.AsOfRevision, job.AsOfAgeSeconds = d.asOf(&snap.Run)
	job.StaleReason = stale
	job.Spec = apipb.NewJobSpec(&snap.Job.Spec)
	if d.Cfg.Accounting != nil {
		job.Use = d.use(ctx, d.Cfg.Accounting.Parts(snap.Job, &snap.Run))
	}
	job.Forecast = d.forecast(to, snap.Job, &snap.Run)
	job.DeadlineOutlook = d.outlook(snap.Job, &snap.Run)
	job.Nomination = d.newNomination(to, snap.Run.Nominated)
	for _, p := range cache.PreemptionsOf(snap.Job, &snap.Run) {
		for _, a := range job.Attempts {
			if a.Number == int32(p.Attempt.Number) {
				a.Preemption = d.newPreemption(p, to)
			}
		}
	}
	if snap.Job.IsArray() {
		// The counts of an array's elements come from this server's view.
		// Therefore wait until the view is at least as recent as the job's
		// run.
		wait, cancel := context.WithTimeout(ctx, maxListWait)
		defer cancel()
		if err := d.Cfg.View.WaitFor(wait, max(snap.Run.Revision, snap.Job.Revision)); err != nil {
			return nil, err
		}
		job.Elements = newElements(d.Cfg.View, snap.Job)
	}
	if d.isOwned(&snap.Run) {
		job.WaitingFor = waitsThere(snap.Job, &snap.Run)
	} else if waits(snap.Job, &snap.Run) {
		job.Explanation = d.explained(ctx, to, snap.Job, &snap.Run)
		if err = d.atHub(ctx, job.Explanation, snap.Job, &snap.Run, nil); err != nil {
			return nil, err
		}
		for _, b := range job.Explanation.GetBlockers() {
			job.WaitingFor = append(job.WaitingFor, ares.Blocker{Count: int(b.GetCount()), Of: int(b.GetOf()), Detail: ares.PlainText(b.GetDetail())}.String())
		}
		if why := d.notClaimed(snap.Job.ID); len(job.WaitingFor) == 0 && why != "" {
			job.WaitingFor = []string{why}
		}
	}
	return &apipb.GetJobResponse{Job: job}, nil
}

// getRemembered returns a job that is no longer live. The argument t is the
// job's tombstone, or nil if the tombstone has been deleted too.
func (d *jobService) getRemembered(ctx context.Context, id ares.JobID, t *store.Tombstone) (*apipb.GetJobResponse, error) {
	found, err := d.ArchivedJob(ctx, id)
	switch {
	case err != nil && t == nil:
		return nil, err
	case err != nil:
		return &apipb.GetJobResponse{Job: newArchivedJob(t, err)}, nil
	}
	job := d.hideStored(visibilityOf(ctx), NewJob(found.Job, &found.Run, nil))
	job.Spec, job.Archived, job.Use = apipb.NewJobSpec(&found.Job.Spec), true, d.use(ctx, found.Parts)
	if found.Job.IsArray() {
		els, err := d.Cfg.Accounting.History.Elements(ctx, found.Job)
		if err != nil {
			return nil, err
		}
		job.Elements = elementsOf(els)
	}
	return &apipb.GetJobResponse{Job: job}, nil
}

// The function `waits` reports whether a job is waiting. An array also counts as waiting while some
// of its elements have not been created.
func waits(j *ares.Job, r *ares.Run) bool {
	return r.Phase.Waiting() || j.IsArray() && !r.Phase.Final() && r.Next < j.Array.Count
}

// The method `explain` sets the short reason for waiting in the public form of a job.
func (d *Services) explain(to Visibility, job *apipb.Job, j *ares.Job, r *ares.Run) {
	if d.isOwned(r) {
		job.WaitingFor = waitsThere(j, r)
		return
	}
	if !waits(j, r) {
		return
	}
	for _, b := range d.Cfg.Engine.Refusal(j.ID).Blockers {
		if d.Cfg.Federation.Owners != nil && isAboutNodes(b.Kind) {
			continue // a hub has none
		}
		job.WaitingFor = append(job.WaitingFor, b.Text().Render(to.within(j.Tenant).ref))
	}
	if why := d.notClaimed(j.ID); len(job.WaitingFor) == 0 && why != "" {
		job.WaitingFor = []string{why}
	}
}

// The method `snapshot` reads the job whose ID the caller specified.
func (d *Services) snapshot(ctx context.Context, id string) (store.Snapshot, error) {
	if err := pipeline.CheckJobID(id); err != nil {
		return store.Snapshot{}, err
	}
	return d.Cfg.Store.Job(ctx, ares.JobID(id))
}

// ListJobs implements apipb.JobServiceServer.
func (d *jobService) ListJobs(ctx context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	f, err := FilterOf(req)
	if err != nil {
		return nil, err
	}
	if req.GetMinRevision() != "" {
		rev, err := RevisionOf("min_revision", req.GetMinRevision())
		if err != nil {
			return nil, err
		}
		wait, cancel := context.WithTimeout(ctx, maxListWait)
		defer cancel()
		if err := d.Cfg.View.WaitFor(wait, rev); err != nil {
			return nil, err
		}
	}
	if f.User == me {
		f.User = pipeline.IdentityOf(ctx).Name
	}
	to := visibilityOf(ctx)
	if f.Tenants = to.tenants(); to.parts() {
		f.Sees = to.job
	}
	if req.GetAll() {
		f.Within = to.scopes(roles.JobRead)
		return d.answerAll(ctx, f)
	}
	page := d.Cfg.View.Jobs(f)
	resp := &apipb.ListJobsResponse{Total: new(int32(page.Total)), Revision: strconv.FormatInt(page.Revision, 10)}
	jobs := make([]accounting.JobRecord, len(page.Entries))
	for i, e := range page.Entries {
		jobs[i].Entry = e
	}
	d.fill(to, resp, jobs, page.More, nil)
	return resp, nil
}

// answerAll lists live and archived jobs, with their usage.
func (d *jobService) answerAll(ctx context.Context, f cache.Filter) (*apipb.ListJobsResponse, error) {
	page, prices, err := d.listAll(ctx, f)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListJobsResponse{Revision: strconv.FormatInt(page.Revision, 10)}
	if page.Total != nil {
		resp.Total = new(int32(min(*page.Total, ares.Unlimited)))
	}
	d.fill(visibilityOf(ctx), resp, page.Jobs, page.More, func(k accounting.JobRecord) *apipb.JobUse { return d.priced(prices, k.Parts) })
	return resp, nil
}

// The method `fill` adds jobs to a page until the page is full, and then sets the page's
// next_page_token.
func (d *jobService) fill(to Visibility, resp *apipb.ListJobsResponse, jobs []accounting.JobRecord, more bool, use func(accounting.JobRecord) *apipb.JobUse) {
	size, last := 0, (*cache.Entry)(nil)
	for _, k := range jobs {
		job := d.hideStored(to, newListedJob(k.Entry))
		if job.Archived = k.Archived; !k.Archived {
			job.Elements = newElements(d.Cfg.View, k.Job)
		}
		if use != nil {
			job.Use = use(k)
		}
		if len(resp.Jobs) < maxExplained {
			d.explain(to, job, k.Job, &k.Run)
		}
		if size += proto.Size(job); size > MaxPageBytes && last != nil {
			more = true
			break
		}
		resp.Jobs, last = append(resp.Jobs, job), k.Entry
	}
	if more && last != nil {
		resp.NextPageToken = PageToken(last)
	}
}

// periodOf reads the start time and end time of a list request. Either time may
// be absent. If the end is before the start, periodOf returns an error, because
// an empty list would be misleading.
func periodOf(fromField string, from *timestamppb.Timestamp, toField string, to *timestamppb.Timestamp) (begin, end time.Time, err error) {
	if from != nil {
		begin = from.AsTime()
	}
	if to != nil {
		end = to.AsTime()
	}
	if from != nil && to != nil && !begin.Before(end) {
		err = ares.Errorf(ares.Invalid, "%[1]s: %[2]s must be earlier than %[3]s (%[4]s)",
			fromField, begin.Format(time.RFC3339Nano), toField, end.Format(time.RFC3339Nano)).At(fromField)
	}
	return begin, end, err
}

func FilterOf(req *apipb.ListJobsRequest) (f cache.Filter, err error) {
	f = cache.Filter{
		Tenant: req.GetTenantId(), Queue: req.GetQueue(), User: req.GetUser(), Name: req.GetName(),
		ArrayOf: ares.JobID(req.GetArrayOf()), Limit: int(req.GetPageSize()),
	}
	if f.From, f.To, err = periodOf("from", req.GetFrom(), "to", req.GetTo()); err != nil {
		return f, err
	}
	if f.ArrayOf != "" && !ares.ValidJobID(req.GetArrayOf()) {
		return f, ares.Errorf(ares.Invalid, "array_of: %q is not a job ID: use the job_id of an array", ares.Clip(req.GetArrayOf())).At("array_of")
	}
	if f.Limit == 0 {
		f.Limit = DefaultPageSize
	}
	if f.Phases, err = phasesOf(req.GetState()); err != nil {
		return f, err
	}
	if f.NamePattern, f.Labels = req.GetNamePattern(), labelConditions(req.GetLabels()); req.GetAll() && (f.NamePattern != "" || len(f.Labels) > 0) {
		return f, ares.Errorf(ares.Invalid, "all: history cannot be searched by name_pattern or labels: leave out all, or use name").At("all")
	}
	if t := req.GetPageToken(); t != "" {
		var ok bool
		if f.Before, f.After, ok = ReadPageToken(t); !ok {
			return f, badPageToken()
		}
	}
	return f, nil
}

// labelConditions reads conditions of the form "key=value" or "key".
func labelConditions(texts []string) []cache.Label {
	var out []cache.Label
	for _, text := range texts {
		key, value, exact := strings.Cut(text, "=")
		out = append(out, cache.Label{Key: key, Value: value, AnyValue: !exact})
	}
	return out
}

// PageToken returns a token that says where the next page begins. The format of
// the token is internal.
func PageToken(last *cache.Entry) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.Job.Revision, 10) + "/" + string(last.Job.ID)))
}

func ReadPageToken(token string) (revision int64, id ares.JobID, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, "", false
	}
	number, name, _ := strings.Cut(string(data), "/")
	revision, err = strconv.ParseInt(number, 10, 64)
	return revision, ares.JobID(name), err == nil && revision > 0 && ares.ValidJobID(name)
}

func RevisionOf(field, s string) (int64, error) {
	rev, err := strconv.ParseInt(s, 10, 64)
	if err != nil || rev < 0 {
		return 0, ares.Errorf(ares.Invalid, "%s: %q is not a revision: use a revision from an earlier response", field, ares.Clip(s)).At(field)
	}
	return rev, nil
}

// CancelJob implements apipb.JobServiceServer.
func (d *jobService) CancelJob(ctx context.Context, req *apipb.CancelJobRequest) (*apipb.CancelJobResponse, error) {
	if err := pipeline.CheckJobID(req.GetJobId()); err != nil {
		return nil, err
	}
	was := d.Cfg.View.Job(ares.JobID(req.GetJobId()))
	only, err := phasesOf(req.GetState())
	if err != nil {
		return nil, err
	}
	run, err := d.Cfg.Admission.Cancel(ctx, ares.JobID(req.GetJobId()), pipeline.CallerName(ctx), only...)
	if was != nil {
		pipeline.AuditChange(ctx, was.Job.Tenant, was.Run, run)
	}
	if run.Phase == ares.Cancelled && (err == nil || ares.CodeOf(err) == ares.Conflict) { // the job may have been archived since
		return &apipb.CancelJobResponse{JobId: req.GetJobId(), Status: string(ares.Cancelled), Message: "Job cancelled"}, nil
	}
	if err != nil {
		return nil, err
	}
	return &apipb.CancelJobResponse{
		JobId: req.GetJobId(), Status: "cancelling",
		Message: "Job is asked to stop; its devices are free when its processes are dead",
	}, nil
}

// RetryJob implements apipb.JobServiceServer.
func (d *jobService) RetryJob(ctx context.Context, req *apipb.RetryJobRequest) (*apipb.RetryJobResponse, error) {
	if err := pipeline.CheckJobID(req.GetJobId()); err != nil {
		return nil, err
	}
	got, err := d.Cfg.Admission.Retry(ctx, ares.JobID(req.GetJobId()), d.request(ctx, ares.Spec{Tenant: pipeline.CallOf(ctx).Tenant, RequestID: req.GetRequestId()}))
	if err != nil {
		return nil, err
	}
	if made := got.Made; made != nil {
		spec := made.Spec.WithDefaults() // the spec as it is shown to users
		e := &pipeline.CallOf(ctx).Entry
		e.Tenant, e.After = made.Tenant, pipeline.MessageDigest(apipb.NewJobSpec(&spec))
	}
	resp := &apipb.RetryJobResponse{JobId: string(got.ID), Status: pipeline.StatusSubmitted, Message: "Job submitted again", RetryOf: req.GetJobId(), Warnings: got.Warnings}
	if got.Duplicate {
		resp.Status, resp.Message = Duplicate, "This retry was accepted before; it is the same job"
	}
	return resp, nil
}

// ListJobEvents implements apipb.JobServiceServer.
func (d *jobService) ListJobEvents(ctx context.Context, req *apipb.ListJobEventsRequest) (*apipb.ListJobEventsResponse, error) {
	snap, err := d.snapshot(ctx, req.GetJobId())
	if t := snap.Tombstone; t != nil || ares.CodeOf(err) == ares.NotFound && pipeline.CheckJobID(req.GetJobId()) == nil {
		found, missing := d.ArchivedJob(ctx, ares.JobID(req.GetJobId()))
		switch {
		case missing != nil && t == nil:
			return nil, missing
		case missing != nil:
			return &apipb.ListJobEventsResponse{Events: []*apipb.JobEvent{{At: apipb.Timestamp(t.EndedAt), State: string(t.Phase), Message: "ended; " + onlyTheEnd(missing)}}}, nil
		}
		snap, err = store.Snapshot{Job: found.Job, Run: found.Run}, nil
	}
	if err != nil {
		return nil, err
	}
	stale, err := d.ownerState(ctx, &snap)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListJobEventsResponse{Dropped: int32(snap.Run.Dropped), StaleReason: stale}
	resp.AsOfRevision, resp.AsOfAgeSeconds = d.asOf(&snap.Run)
	for _, t := range snap.Run.Transitions {
		resp.Events = append(resp.Events, &apipb.JobEvent{
			At: apipb.Timestamp(t.At), State: string(t.Phase), Attempt: int32(t.Attempt), Message: d.StoredText(visibilityOf(ctx).within(snap.Job.Tenant), snap.Job.TransitionText(t), snap.Job.ID),
		})
	}
	return resp, nil
}
