package api

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
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// jobDoor is the JobService.
type jobDoor struct {
	apipb.UnimplementedJobServiceServer
	*Doors
}

// The words a submission is answered with.
const (
	submitted = "submitted"
	duplicate = "duplicate"
	refused   = "refused"
)

// SubmitJob implements apipb.JobServiceServer.
func (d *jobDoor) SubmitJob(ctx context.Context, req *apipb.SubmitJobRequest) (*apipb.SubmitJobResponse, error) {
	got, err := d.cfg.Desk.Submit(ctx, req.GetJob().Spec(), caller(ctx))
	if err != nil {
		return nil, err
	}
	resp := &apipb.SubmitJobResponse{JobId: string(got.ID), Status: submitted, Message: "Job submitted successfully", State: string(got.Phase), Warnings: got.Warnings}
	if got.Duplicate {
		resp.Status, resp.Message = duplicate, "This request was accepted before; it is the same job"
	}
	return resp, nil
}

// SubmitJobs implements apipb.JobServiceServer.
func (d *jobDoor) SubmitJobs(ctx context.Context, req *apipb.SubmitJobsRequest) (*apipb.SubmitJobsResponse, error) {
	resp := &apipb.SubmitJobsResponse{Results: make([]*apipb.SubmitResult, len(req.GetJobs()))}
	for i, got := range d.submitAll(ctx, req.GetJobs()) {
		r := &apipb.SubmitResult{JobId: string(got.ID), Status: submitted, Warnings: got.Warnings}
		switch {
		case got.Err != nil:
			r.JobId, r.Status = "", refused
			r.Error, r.Code = d.publicly(got.Err)
			resp.Refused++
		case got.Duplicate:
			r.Status = duplicate
			resp.Duplicates++
		default:
			resp.Accepted++
		}
		resp.Results[i] = r
	}
	return resp, nil
}

// submitAll submits those of many jobs that are the caller's to submit, and
// answers each.
func (d *jobDoor) submitAll(ctx context.Context, jobs []*apipb.JobSpec) []control.Accepted {
	out := make([]control.Accepted, len(jobs))
	var specs []ares.Spec
	var index []int
	who := identityOf(ctx)
	for i, j := range jobs {
		where, err := placeOf(who, j)
		if err == nil {
			err = where.allows(who, roles.JobSubmit)
		}
		if out[i].Err = err; err == nil {
			specs, index = append(specs, j.Spec()), append(index, i)
		}
	}
	for k, got := range d.cfg.Desk.SubmitAll(ctx, specs, who.Name) {
		out[index[k]] = got
	}
	return out
}

// publicly is what a caller is told of an error that is part of an answer.
func (d *Doors) publicly(err error) (message, code string) {
	out := apipb.ToStatus(err)
	c := ares.CodeOf(apipb.FromStatus(out))
	if c == ares.Internal {
		d.cfg.Log.Error("a part of a call failed", "error", err)
	}
	return status.Convert(out).Message(), string(c)
}

// GetJob implements apipb.JobServiceServer.
func (d *jobDoor) GetJob(ctx context.Context, req *apipb.GetJobRequest) (*apipb.GetJobResponse, error) {
	snap, err := d.snapshot(ctx, req.GetJobId())
	if ares.CodeOf(err) == ares.NotFound && jobID(req.GetJobId()) == nil || snap.Tombstone != nil {
		return d.getRemembered(ctx, ares.JobID(req.GetJobId()), snap.Tombstone)
	}
	if err != nil {
		return nil, err
	}
	job := newJob(snap.Job, &snap.Run, snap.Progress)
	job.Spec = apipb.NewJobSpec(&snap.Job.Spec)
	if d.cfg.Ledger != nil {
		job.Use = d.use(ctx, d.cfg.Ledger.Parts(snap.Job, &snap.Run))
	}
	job.Forecast = d.forecast(snap.Job, &snap.Run)
	job.DeadlineOutlook = d.outlook(snap.Job, &snap.Run)
	to := eyesOf(ctx)
	job.Nomination = d.newNomination(to, snap.Run.Nominated)
	for _, p := range control.PreemptionsOf(snap.Job, &snap.Run) {
		for _, a := range job.Attempts {
			if a.Number == int32(p.Attempt.Number) {
				a.Preemption = d.newPreemption(p, to)
			}
		}
	}
	if snap.Job.IsArray() {
		// The counts are this server's: they are to be no older than the run.
		wait, cancel := context.WithTimeout(ctx, maxListWait)
		defer cancel()
		if err := d.cfg.View.WaitFor(wait, max(snap.Run.Revision, snap.Job.Revision)); err != nil {
			return nil, err
		}
		job.Elements = newElements(d.cfg.View, snap.Job)
	}
	if waits(snap.Job, &snap.Run) {
		job.Explanation = d.explained(ctx, to, snap.Job, &snap.Run)
		for _, b := range job.Explanation.GetBlockers() {
			job.WaitingFor = append(job.WaitingFor, ares.Blocker{Count: int(b.GetCount()), Of: int(b.GetOf()), Detail: b.GetDetail()}.String())
		}
	}
	return &apipb.GetJobResponse{Job: job}, nil
}

// getRemembered answers for a job that is no longer live: t is its tombstone, nil
// when that is gone too.
func (d *jobDoor) getRemembered(ctx context.Context, id ares.JobID, t *store.Tombstone) (*apipb.GetJobResponse, error) {
	found, err := d.remembered(ctx, id)
	switch {
	case err != nil && t == nil:
		return nil, err
	case err != nil:
		return &apipb.GetJobResponse{Job: newArchivedJob(t, err)}, nil
	}
	job := newJob(found.Job, &found.Run, nil)
	job.Spec, job.Archived, job.Use = apipb.NewJobSpec(&found.Job.Spec), true, d.use(ctx, found.Parts)
	if found.Job.IsArray() {
		els, err := d.cfg.Ledger.History.Elements(ctx, found.Job)
		if err != nil {
			return nil, err
		}
		job.Elements = elementsOf(els)
	}
	return &apipb.GetJobResponse{Job: job}, nil
}

// waits says whether something of the job waits: it, or elements not made yet.
func waits(j *ares.Job, r *ares.Run) bool {
	return r.Phase.Waiting() || j.IsArray() && !r.Phase.Final() && r.Next < j.Array.Count
}

// explain says in short why a job waits.
func (d *Doors) explain(to eyes, job *apipb.Job, j *ares.Job, r *ares.Run) {
	if !waits(j, r) {
		return
	}
	for _, b := range d.cfg.Engine.Refusal(ares.JobID(job.JobId)).Blockers {
		job.WaitingFor = append(job.WaitingFor, d.redact(to.within(j.Tenant), b.String()))
	}
}

// snapshot reads a job by the name a caller gave.
func (d *Doors) snapshot(ctx context.Context, id string) (store.Snapshot, error) {
	if err := jobID(id); err != nil {
		return store.Snapshot{}, err
	}
	return d.cfg.Store.Job(ctx, ares.JobID(id))
}

func jobID(id string) error {
	if ares.ValidJobID(id) {
		return nil
	}
	return ares.Errorf(ares.NotFound, "there is no job %q: a job's ID is the job_id its submission was answered with", clip(id)).At("job_id")
}

// ListJobs implements apipb.JobServiceServer.
func (d *jobDoor) ListJobs(ctx context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	f, err := filterOf(req)
	if err != nil {
		return nil, err
	}
	if req.GetMinRevision() != "" {
		rev, err := revisionOf("min_revision", req.GetMinRevision())
		if err != nil {
			return nil, err
		}
		wait, cancel := context.WithTimeout(ctx, maxListWait)
		defer cancel()
		if err := d.cfg.View.WaitFor(wait, rev); err != nil {
			return nil, err
		}
	}
	to := eyesOf(ctx)
	if f.Tenants = to.tenants(); to.parts() {
		f.Sees = to.job
	}
	if req.GetAll() {
		f.Within = to.scopes(roles.JobRead)
		return d.answerAll(ctx, f)
	}
	page := d.cfg.View.Jobs(f)
	resp := &apipb.ListJobsResponse{Total: new(int32(page.Total)), Revision: strconv.FormatInt(page.Revision, 10)}
	jobs := make([]control.Known, len(page.Entries))
	for i, e := range page.Entries {
		jobs[i].Entry = e
	}
	d.fill(to, resp, jobs, page.More, nil)
	return resp, nil
}

// answerAll lists jobs wherever they are, with what they used.
func (d *jobDoor) answerAll(ctx context.Context, f control.Filter) (*apipb.ListJobsResponse, error) {
	page, prices, err := d.listAll(ctx, f)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListJobsResponse{Revision: strconv.FormatInt(page.Revision, 10)}
	if page.Total != nil {
		resp.Total = new(int32(min(*page.Total, ares.Unlimited)))
	}
	d.fill(eyesOf(ctx), resp, page.Jobs, page.More, func(k control.Known) *apipb.JobUse { return d.priced(prices, k.Parts) })
	return resp, nil
}

// fill puts jobs into a page, as many as it may hold, and says where the next
// begins.
func (d *jobDoor) fill(to eyes, resp *apipb.ListJobsResponse, jobs []control.Known, more bool, use func(control.Known) *apipb.JobUse) {
	size, last := 0, (*control.Entry)(nil)
	for _, k := range jobs {
		job := newListedJob(k.Entry)
		if job.Archived = k.Archived; !k.Archived {
			job.Elements = newElements(d.cfg.View, k.Job)
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
		resp.NextPageToken = pageToken(last)
	}
}

// periodOf reads the fields of a list that choose a time; either may be absent. Times in
// the wrong order would find nothing, and who asks would take that for the answer.
func periodOf(fromField string, from *timestamppb.Timestamp, toField string, to *timestamppb.Timestamp) (begin, end time.Time, err error) {
	if from != nil {
		begin = from.AsTime()
	}
	if to != nil {
		end = to.AsTime()
	}
	if from != nil && to != nil && !begin.Before(end) {
		err = ares.Errorf(ares.Invalid, "%s: %s is not before %s, %s: nothing is in between",
			fromField, begin.Format(time.RFC3339Nano), toField, end.Format(time.RFC3339Nano)).At(fromField)
	}
	return begin, end, err
}

func filterOf(req *apipb.ListJobsRequest) (f control.Filter, err error) {
	f = control.Filter{
		Tenant: req.GetTenantId(), Queue: req.GetQueue(), User: req.GetUser(), Name: req.GetName(),
		ArrayOf: ares.JobID(req.GetArrayOf()), Limit: int(req.GetPageSize()),
	}
	if f.From, f.To, err = periodOf("from", req.GetFrom(), "to", req.GetTo()); err != nil {
		return f, err
	}
	if f.ArrayOf != "" && !ares.ValidJobID(req.GetArrayOf()) {
		return f, ares.Errorf(ares.Invalid, "array_of: %q is not a job ID: use the job_id of an array", clip(req.GetArrayOf())).At("array_of")
	}
	if f.Limit == 0 {
		f.Limit = DefaultPageSize
	}
	for _, s := range req.GetState() {
		for word := range strings.SplitSeq(s, ",") {
			if word = strings.TrimSpace(word); word == "" {
				continue
			}
			p, err := ares.ParsePhase(clip(word))
			if err != nil {
				return f, err
			}
			f.Phases = append(f.Phases, p)
		}
	}
	if t := req.GetPageToken(); t != "" {
		var ok bool
		if f.Before, f.After, ok = readPageToken(t); !ok {
			return f, badPageToken()
		}
	}
	return f, nil
}

// pageToken says where the next page begins. Its form is nobody's business.
func pageToken(last *control.Entry) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.Job.Revision, 10) + "/" + string(last.Job.ID)))
}

func readPageToken(token string) (revision int64, id ares.JobID, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, "", false
	}
	number, name, _ := strings.Cut(string(data), "/")
	revision, err = strconv.ParseInt(number, 10, 64)
	return revision, ares.JobID(name), err == nil && revision > 0 && ares.ValidJobID(name)
}

func revisionOf(field, s string) (int64, error) {
	rev, err := strconv.ParseInt(s, 10, 64)
	if err != nil || rev < 0 {
		return 0, ares.Errorf(ares.Invalid, "%s: %q is not a revision: use one that an answer carried", field, clip(s)).At(field)
	}
	return rev, nil
}

// CancelJob implements apipb.JobServiceServer.
func (d *jobDoor) CancelJob(ctx context.Context, req *apipb.CancelJobRequest) (*apipb.CancelJobResponse, error) {
	if err := jobID(req.GetJobId()); err != nil {
		return nil, err
	}
	was := d.cfg.View.Job(ares.JobID(req.GetJobId()))
	run, err := d.cfg.Desk.Cancel(ctx, ares.JobID(req.GetJobId()), caller(ctx))
	if was != nil {
		changed(ctx, was.Job.Tenant, was.Run, run)
	}
	if run.Phase == ares.Cancelled && (err == nil || ares.CodeOf(err) == ares.Conflict) { // perhaps archived since
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
func (d *jobDoor) RetryJob(ctx context.Context, req *apipb.RetryJobRequest) (*apipb.RetryJobResponse, error) {
	if err := jobID(req.GetJobId()); err != nil {
		return nil, err
	}
	got, err := d.cfg.Desk.Retry(ctx, ares.JobID(req.GetJobId()), req.GetRequestId(), caller(ctx))
	if err != nil {
		return nil, err
	}
	if made := got.Made; made != nil {
		spec := made.Spec.WithDefaults() // as it is shown
		r := recordOf(ctx)
		r.Tenant, r.After = made.Tenant, messageDigest(apipb.NewJobSpec(&spec))
	}
	resp := &apipb.RetryJobResponse{JobId: string(got.ID), Status: submitted, Message: "Job submitted again", RetryOf: req.GetJobId(), Warnings: got.Warnings}
	if got.Duplicate {
		resp.Status, resp.Message = duplicate, "This retry was accepted before; it is the same job"
	}
	return resp, nil
}

// ListJobEvents implements apipb.JobServiceServer.
func (d *jobDoor) ListJobEvents(ctx context.Context, req *apipb.ListJobEventsRequest) (*apipb.ListJobEventsResponse, error) {
	snap, err := d.snapshot(ctx, req.GetJobId())
	if t := snap.Tombstone; t != nil || ares.CodeOf(err) == ares.NotFound && jobID(req.GetJobId()) == nil {
		found, missing := d.remembered(ctx, ares.JobID(req.GetJobId()))
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
	resp := &apipb.ListJobEventsResponse{Dropped: int32(snap.Run.Dropped)}
	for _, t := range snap.Run.Transitions {
		resp.Events = append(resp.Events, &apipb.JobEvent{
			At: apipb.Timestamp(t.At), State: string(t.Phase), Attempt: int32(t.Attempt), Message: d.redact(eyesOf(ctx).within(snap.Job.Tenant), snap.Job.Told(t)),
		})
	}
	return resp, nil
}

// caller is the name of who makes a call.
func caller(ctx context.Context) string {
	return identityOf(ctx).Name
}

// clip keeps what a caller sent from filling a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
