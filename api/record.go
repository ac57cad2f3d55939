package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/policy"
)

// Auditor keeps what callers did and what they were refused.
type Auditor interface {
	// Ready says whether something could be recorded: while not, nobody may change
	// anything.
	Ready() error
	// Record returns when the entries are safe.
	Record(ctx context.Context, entries ...audit.Entry) error
	// Refuse records refusals. Many alike are counted instead.
	Refuse(ctx context.Context, entries ...audit.Entry)
	// Note records without waiting.
	Note(entries ...audit.Entry)
}

// maxAuditWait is how long a call waits for its entry to be safe.
const maxAuditWait = 10 * time.Second

// requestIDHeader names a call: the caller's own name for it, or one of the
// server's, which the answer carries.
const requestIDHeader = "X-Request-Id"

type recordKey struct{}

// record collects what the audit is to say of a call while that is under way. It
// belongs to the call's goroutine.
type record struct {
	audit.Entry

	request, response proto.Message
	refused           bool // its caller has no right to it, whatever the answer calls that
	told              bool // the audit has it, or need not
}

// recordOf is the record of a call. Outside of one it is nobody's.
func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// changed tells the audit what an object was and what it is now; nil for none.
func changed(ctx context.Context, tenant string, before, after any) {
	r := recordOf(ctx)
	if tenant != "" {
		r.Tenant = tenant
	}
	r.Before, r.After = digestOf(before), digestOf(after)
}

// created tells the audit of an object that was made now, or else that it was there
// before: a request that is repeated changes nothing.
func created(ctx context.Context, tenant string, object any, now bool) {
	if now {
		changed(ctx, tenant, nil, object)
		return
	}
	changed(ctx, tenant, nil, nil)
	recordOf(ctx).Detail = "unchanged"
}

// wholeMicros is a time as the store keeps it, so that what was written and what
// is read again have one digest.
func wholeMicros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// digestOf is the digest of an object of ours.
func digestOf(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic("api: an object always marshals: " + err.Error())
	}
	return audit.Digest(data)
}

// messageDigest is the digest of a message in its canonical form.
func messageDigest(m proto.Message) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "" // it was never valid, and was refused
	}
	return audit.Digest(data)
}

// withRecord begins the record of a call that came over gRPC; one that came over
// REST has it already.
func withRecord(ctx context.Context) (context.Context, *record) {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return ctx, r
	}
	r := newRecord(ctx, metadata.ValueFromIncomingContext(ctx, strings.ToLower(requestIDHeader)))
	return context.WithValue(ctx, recordKey{}, r), r
}

// newRecord is the record of a call over gRPC.
func newRecord(ctx context.Context, id []string) *record {
	r := &record{Entry: audit.Entry{Door: "grpc", RequestID: callID(id)}}
	if from, ok := peer.FromContext(ctx); ok && from.Addr != nil {
		r.Source = from.Addr.String()
	}
	return r
}

// withRequestRecord begins the record of a call that came over HTTP.
func withRequestRecord(r *http.Request) (*http.Request, *record) {
	rec := &record{Entry: audit.Entry{Door: "rest", Source: r.RemoteAddr, RequestID: callID(r.Header.Values(requestIDHeader))}}
	if upgrades(r) {
		rec.Door = "websocket"
	}
	return r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)), rec
}

// callID is the caller's own name of a call, or a new one.
func callID(given []string) string {
	if len(given) == 1 && len(given[0]) <= 128 && ares.ValidName(given[0]) {
		return given[0]
	}
	return rand.Text()
}

// saw notes what was asked and answered.
func (r *record) saw(req, resp any) {
	if m, ok := req.(proto.Message); ok && r.request == nil {
		r.request = m
	}
	if m, ok := resp.(proto.Message); ok {
		r.response = m
	}
}

// entry completes the record of a call of a method.
func (d *Doors) entry(ctx context.Context, r *record, method string, code ares.Code) audit.Entry {
	what := deedOf(method)
	e := r.Entry
	e.Action, e.Code = what.action, string(code)
	who := identityOf(ctx)
	e.User = who.Name
	if object := what.object(r.request, r.response); object != "" {
		e.Object = object
	}
	if e.Request == "" && what.keep == changes {
		e.Request = messageDigest(r.request)
	}
	if own := textAt(r.request, "request_id"); own != "" {
		e.RequestID = own
	} else if own = textAt(r.request, "job.request_id"); own != "" {
		e.RequestID = own
	}
	switch answer := r.response.(type) {
	case *apipb.SubmitJobResponse:
		e.Detail = answer.GetStatus()
		if req, ok := r.request.(*apipb.SubmitJobRequest); ok && answer.GetStatus() == submitted {
			e.After = messageDigest(req.GetJob())
		}
	case *apipb.ApplyPolicyResponse:
		e.Detail = answer.GetStatus() // checked, created, updated or unchanged
	case *apipb.RetryJobResponse:
		e.Detail = answer.GetStatus() + ", retry of " + answer.GetRetryOf()
	}
	if e.Tenant == "" {
		e.Tenant = d.tenantOf(r, &what, &e)
	}
	if e.Status = statusFor(code); r.refused {
		e.Status = audit.Refused
	}
	e.Outside = hasNoPart(who, e.Tenant)
	return e
}

// hasNoPart says whether a caller neither belongs to a tenant nor has a role there:
// that tenant's administrators are told of the deed, not of the name.
func hasNoPart(who *ares.Identity, tenant string) bool {
	return tenant != "" && who.Name != "" && who.Tenant != tenant && !slices.ContainsFunc(who.Bindings, func(b ares.Binding) bool {
		return b.Tenant == "" || b.Tenant == tenant
	})
}

// tenantOf is the tenant a call is about, as far as it shows.
func (d *Doors) tenantOf(r *record, what *deed, e *audit.Entry) string {
	for _, path := range []string{"tenant_id", "job.tenant_id", "queue.tenant_id", "tenant.id", "reservation.tenant_id", "policy.tenant_id"} {
		if t := textAt(r.request, path); t != "" {
			return t
		}
	}
	if what.kind == "" && ares.ValidJobID(e.Object) {
		if job := d.cfg.View.Job(ares.JobID(e.Object)); job != nil {
			return job.Job.Tenant
		}
	}
	if what.action == "SUBMIT_JOB" || what.kind == "queue" {
		return ares.DefaultTenant
	}
	return ""
}

// statusFor says by a call's code what became of it.
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

// mayChange refuses to begin what could not be recorded.
func (d *Doors) mayChange(method string) error {
	if d.cfg.Audit == nil {
		return nil
	}
	if keep := deedOf(method).keep; keep != changes && keep != opens {
		return nil
	}
	return d.cfg.Audit.Ready()
}

// opened records a stream that hands out what is not the caller's alone, before
// its first message.
func (d *Doors) opened(ctx context.Context, method string) error {
	if d.cfg.Audit == nil || deedOf(method).keep != opens {
		return nil
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	return d.cfg.Audit.Record(wait, d.entry(ctx, recordOf(ctx), method, ""))
}

// settle has the audit know of a call before it is answered, and returns what to
// answer: a change that could not be recorded is not called done.
func (d *Doors) settle(ctx context.Context, r *record, method string, err error) error {
	if d.cfg.Audit == nil || r.told {
		return err
	}
	r.told = true
	code := ares.CodeOf(apipb.FromStatus(apipb.ToStatus(err)))
	keep := deedOf(method).keep
	if keep == nothing || keep == reports && code != ares.Unauthentic && code != ares.Forbidden {
		return err
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	e := d.entry(ctx, r, method, code)
	if by, ok := errors.AsType[*policy.Denied](err); ok {
		e.Detail = "policy " + strings.Join(by.Policies, ", ")
	}
	switch {
	case e.Status == audit.Refused:
		d.cfg.Audit.Refuse(wait, e)
	case keep == changes:
		done, refused := each(e, r, identityOf(ctx))
		if len(refused) > 0 {
			d.cfg.Audit.Refuse(wait, refused...)
		}
		if len(done) == 0 {
			return err
		}
		if failed := d.cfg.Audit.Record(wait, done...); failed != nil && err == nil {
			return failed
		}
	case keep == sessions && e.Status == audit.Done:
		d.cfg.Audit.Note(e)
	}
	return err
}

// each makes an entry of every job of a batch, and one of any other call.
func each(e audit.Entry, r *record, who *ares.Identity) (done, refusals []audit.Entry) {
	req, isBatch := r.request.(*apipb.SubmitJobsRequest)
	resp, answered := r.response.(*apipb.SubmitJobsResponse)
	if !isBatch || !answered || len(req.GetJobs()) != len(resp.GetResults()) {
		return []audit.Entry{e}, nil
	}
	for i, job := range req.GetJobs() {
		one, result := e, resp.GetResults()[i]
		one.Object, one.RequestID, one.Request = result.GetJobId(), job.GetRequestId(), messageDigest(job)
		if result.GetStatus() == submitted {
			one.After = one.Request
		}
		one.Tenant = cmp.Or(job.GetTenantId(), ares.DefaultTenant)
		one.Code, one.Detail = result.GetCode(), result.GetStatus()
		one.Outside = hasNoPart(who, one.Tenant)
		if one.Status = statusFor(ares.Code(one.Code)); one.Status == audit.Refused {
			refusals = append(refusals, one)
		} else {
			done = append(done, one)
		}
	}
	return done, refusals
}

// refusedAtDoor records a request that was refused before it became a call.
func (d *Doors) refusedAtDoor(r *http.Request, err error) {
	rec := recordOf(r.Context())
	if d.cfg.Audit == nil || rec.told {
		return
	}
	rec.told = true
	code := ares.CodeOf(apipb.FromStatus(apipb.ToStatus(err)))
	if statusFor(code) != audit.Refused {
		return
	}
	e := rec.Entry
	e.Action, e.Object = "UNKNOWN_ROUTE", "path/"+clip(r.URL.Path)
	if at, values := routeFor(r.Method, r.URL.Path); at != nil {
		what := deedOf(at.call)
		e.Action, e.Object = what.action, strings.Join(values, "/")
		if what.kind != "" && e.Object != "" {
			e.Object = what.kind + "/" + e.Object
		}
	}
	who := identityOf(r.Context())
	e.User, e.Code, e.Status = who.Name, string(code), audit.Refused
	wait, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxAuditWait)
	defer cancel()
	d.cfg.Audit.Refuse(wait, e)
}
