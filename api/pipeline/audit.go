package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/policy"
)

// Auditor records calls and rejections.
type Auditor interface {
	// Ready returns an error if the audit log cannot record anything. While
	// Ready returns an error, the server rejects every call that changes
	// something.
	Ready() error
	// Record writes entries to the audit log, and returns when they are durable.
	Record(ctx context.Context, entries ...audit.Entry) error
	// Refuse records rejections. If many similar calls are rejected, Refuse
	// only counts them.
	Refuse(ctx context.Context, entries ...audit.Entry)
	// Note is like Record, but does not wait until the entries are durable.
	Note(entries ...audit.Entry)
}

// maxAuditWait is how long a call waits until its audit entry is stored
// durably.
const maxAuditWait = 10 * time.Second

// AuditChange adds two states of an object to the call's audit entry: before the change and after
// it. Either state may be nil: for example, a new object has no state before the change.
func AuditChange(ctx context.Context, tenant string, before, after any) {
	e := &CallOf(ctx).Entry
	if tenant != "" {
		e.Tenant = tenant
	}
	e.Before, e.After = DigestOf(before), DigestOf(after)
}

// AuditCreation adds a created object to the call's audit entry. The argument `now` is false if an earlier
// call created the object and this request only repeats it.
func AuditCreation(ctx context.Context, tenant string, object any, now bool) {
	if now {
		AuditChange(ctx, tenant, nil, object)
		return
	}
	AuditChange(ctx, tenant, nil, nil)
	CallOf(ctx).Entry.Detail = "unchanged"
}

// WholeMicros rounds a time down to the precision of the store, so that the
// written and the read value have the same digest.
func WholeMicros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// DigestOf returns the digest of an object's JSON.
func DigestOf(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic("api: an object always marshals: " + err.Error())
	}
	return audit.Digest(data)
}

// The method `entry` fills in the remaining fields of a call's audit entry and returns the entry.
func (d *Pipeline) entry(r *Call, name string, code ares.Code) audit.Entry {
	what := method.AuditOf(name)
	e := r.Entry
	e.Action, e.Code = what.Action, string(code)
	who := r.Identity()
	e.User = who.Name
	if object := auditObject(&what, r.request, r.response); object != "" {
		e.Object = object
	}
	if req, ok := r.request.(*apipb.SubmitJobRequest); ok && e.Request == "" && isSubmitted(r.response) {
		e.Request, e.After = submissionDigests(req)
	} else if e.Request == "" && what.Level == method.Changes {
		e.Request = MessageDigest(r.request)
	}
	if own := textAt(r.request, "request_id"); own != "" {
		e.RequestID = own
	} else if own = textAt(r.request, "job.request_id"); own != "" {
		e.RequestID = own
	}
	switch answer := r.response.(type) {
	case *apipb.SubmitJobResponse:
		e.Detail = answer.GetStatus()
	case *apipb.ApplyPolicyResponse:
		e.Detail = answer.GetStatus() // "checked", "created", "updated" or "unchanged"
	case *apipb.RetryJobResponse:
		e.Detail = answer.GetStatus() + ", retry of " + answer.GetRetryOf()
	}
	if e.Tenant == "" {
		e.Tenant = d.tenantOf(r, &what, &e)
	}
	if e.Status = statusFor(code); r.rejected {
		e.Status = audit.Refused
	}
	e.Outside = IsOutsider(who, e.Tenant)
	return e
}

// isSubmitted reports whether an answer is that to a submission which created a new job.
func isSubmitted(answer any) bool {
	resp, ok := answer.(*apipb.SubmitJobResponse)
	return ok && resp.GetStatus() == StatusSubmitted
}

// IsOutsider reports whether a caller is outside a tenant. An outsider does not belong to the
// tenant and has no role in it. The tenant's administrators see what an outsider did, but not the
// outsider's name.
func IsOutsider(who *ares.Identity, tenant string) bool {
	return tenant != "" && who.Name != "" && who.Tenant != tenant && !slices.ContainsFunc(who.Bindings, func(b ares.Binding) bool {
		return b.Tenant == "" || b.Tenant == tenant
	})
}

// tenantOf returns the tenant that a call acts on, or "" if it is unknown.
func (d *Pipeline) tenantOf(r *Call, what *method.AuditRule, e *audit.Entry) string {
	if _, ok := r.request.(*apipb.SubmitJobRequest); ok && r.Tenant != "" {
		return r.Tenant // the tenant that the job names, or its default
	}
	for _, path := range []string{"tenant_id", "job.tenant_id", "queue.tenant_id", "tenant.id", "reservation.tenant_id", "policy.tenant_id"} {
		if t := textAt(r.request, path); t != "" {
			return t
		}
	}
	if what.Kind == "" && ares.ValidJobID(e.Object) {
		if job := d.Cfg.View.Job(ares.JobID(e.Object)); job != nil {
			return job.Job.Tenant
		}
	}
	if r.Tenant == "" && r.Method != nil && (what.Action == "SUBMIT_JOB" || what.Kind == "queue") { // the call was rejected before the tenant was resolved
		tenant, _ := tenantOr("", r.Identity(), r.Method.Permission)
		return tenant
	}
	return r.Tenant
}

// statusFor returns the audit status that corresponds to a call's code.
func statusFor(code ares.Code) audit.Status {
	switch code {
	case "":
		return audit.Done
	case ares.Unavailable, ares.Internal:
		return audit.Unknown
	default:
		return audit.Refused
	}
}

// auditExport writes the audit entry for a stream that exports other callers' data. The entry is
// written before the stream's first message is sent.
func (d *Pipeline) auditExport(ctx context.Context, c *Call, _ any) error {
	if d.Cfg.Audit == nil {
		return nil
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	return d.Cfg.Audit.Record(wait, d.entry(c, c.Method.Name, ""))
}

// AuditBegin records that a long call begins. The call must not do anything before that. Its end is recorded as that of every call.
func (d *Pipeline) AuditBegin(ctx context.Context, detail string) error {
	if d.Cfg.Audit == nil {
		return nil
	}
	c := CallOf(ctx)
	e := d.entry(c, c.Method.Name, "")
	e.Detail = detail
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	return d.Cfg.Audit.Record(wait, e)
}

// writeAudit records a call before it is answered, and returns the error that
// the caller gets. If the audit log could not record a change, the caller gets
// an error.
func (d *Pipeline) writeAudit(ctx context.Context, r *Call, name string, err error) error {
	if d.Cfg.Audit == nil || r.audited {
		return err
	}
	r.audited = true
	code := ares.CodeOf(apipb.FromStatus(apipb.ToStatus(err)))
	level := method.AuditOf(name).Level
	if level == method.NotAudited || level == method.AgentReports && statusFor(code) != audit.Refused {
		return err
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	if level == method.AgentReports || level == method.AgentSessions {
		cancel() // an agent never waits for the audit log's disk: a session that is not renewed in time is lost
	}
	e := d.entry(r, name, code)
	if by, ok := errors.AsType[*policy.Denied](err); ok {
		e.Detail = "policy " + strings.Join(by.Policies, ", ")
	}
	switch {
	case e.Status == audit.Refused:
		d.Cfg.Audit.Refuse(wait, e)
	case level == method.Changes:
		done, refused := entryPerJob(e, r)
		if len(refused) > 0 {
			d.Cfg.Audit.Refuse(wait, refused...)
		}
		if len(done) == 0 {
			return err
		}
		if failed := d.Cfg.Audit.Record(wait, done...); failed != nil && err == nil {
			return failed
		}
	case level == method.AgentSessions && e.Status == audit.Done:
		d.Cfg.Audit.Note(e)
	}
	return err
}

// entryPerJob returns one audit entry for each job of a batch, or a single entry
// for any other call.
func entryPerJob(e audit.Entry, r *Call) (done, refusals []audit.Entry) {
	req, isBatch := r.request.(*apipb.SubmitJobsRequest)
	resp, answered := r.response.(*apipb.SubmitJobsResponse)
	if !isBatch || !answered || len(req.GetJobs()) != len(resp.GetResults()) || len(req.GetJobs()) != len(r.JobTenants) {
		return []audit.Entry{e}, nil
	}
	for i, job := range req.GetJobs() {
		one, result := e, resp.GetResults()[i]
		one.Object, one.RequestID, one.Request = result.GetJobId(), job.GetRequestId(), MessageDigest(job)
		if result.GetStatus() == StatusSubmitted {
			one.After = one.Request
		}
		one.Tenant = r.JobTenants[i]
		one.Code, one.Detail = result.GetCode(), result.GetStatus()
		one.Outside = IsOutsider(r.Identity(), one.Tenant)
		if one.Status = statusFor(ares.Code(one.Code)); one.Status == audit.Refused {
			refusals = append(refusals, one)
		} else {
			done = append(done, one)
		}
	}
	return done, refusals
}

// AuditRejectedHTTP records an HTTP request that was rejected before it entered
// the pipeline.
func (d *Pipeline) AuditRejectedHTTP(r *http.Request, err error) {
	rec := CallOf(r.Context())
	if d.Cfg.Audit == nil || rec.audited {
		return
	}
	rec.audited = true
	code := ares.CodeOf(apipb.FromStatus(apipb.ToStatus(err)))
	if statusFor(code) != audit.Refused {
		return
	}
	e := rec.Entry
	e.Action, e.Object = "UNKNOWN_ROUTE", "path/"+ares.Clip(r.URL.Path)
	if m, route := method.Find(r.Method, r.URL.Path); m != nil {
		e.Action, e.Object = m.Audit.Action, strings.Join(route.Values(r.URL.Path), "/")
		if m.Audit.Kind != "" && e.Object != "" {
			e.Object = m.Audit.Kind + "/" + e.Object
		}
	}
	who := IdentityOf(r.Context())
	e.User, e.Code, e.Status = who.Name, string(code), audit.Refused
	wait, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxAuditWait)
	defer cancel()
	d.Cfg.Audit.Refuse(wait, e)
}

// StatusSubmitted is the status of a submission that created a new job.
const StatusSubmitted = "submitted"
