package service

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/policy/roles"
)

// AuditLog answers queries about this server's audit log.
type AuditLog interface {
	List(ctx context.Context, q audit.Query) (audit.Page, error)
	Head(ctx context.Context) (audit.Head, error)
	Verify(check audit.Check) (*audit.Report, error)
}

// AuditHistory has the entries of all servers. Every call that this server has answered is in AuditHistory.
type AuditHistory interface {
	List(ctx context.Context, q audit.Query, after *history.AuditCursor) (page []audit.Entry, more bool, err error)
}

// AuditMarks returns what this server's log is compared with: what places outside the log's files remember of it, and the names of the places
// that could not be asked.
type AuditMarks func(ctx context.Context) audit.Check

// historyWithin is how long the server waits for the history database before it reads its own audit log instead.
const historyWithin = 3 * time.Second

// auditService implements AuditService.
type auditService struct {
	apipb.UnimplementedAuditServiceServer
	*Services
}

func (d *auditService) log() (AuditLog, error) {
	if d.Cfg.AuditLog == nil {
		return nil, ares.Errorf(ares.Unavailable, "this server has no audit log")
	}
	return d.Cfg.AuditLog, nil
}

// ListAuditEntries implements apipb.AuditServiceServer.
func (d *auditService) ListAuditEntries(ctx context.Context, req *apipb.ListAuditEntriesRequest) (*apipb.ListAuditEntriesResponse, error) {
	log, err := d.log()
	if err != nil {
		return nil, err
	}
	q, err := auditQuery(req, pipeline.CallOf(ctx).Tenant)
	if err != nil {
		return nil, err
	}
	mine := auditedBy(pipeline.IdentityOf(ctx))
	q.Unnamed = mine != nil
	if q.Tenants == nil {
		q.Tenants = mine
	}
	after, err := auditPlace(req, &q)
	if err != nil {
		return nil, err
	}
	if d.Cfg.AuditHistory != nil && !req.GetOwnLog() && q.From == 0 {
		resp, bad := d.fromHistory(ctx, q, after)
		if bad == nil || after != nil { // only the first page decides which source is used
			return resp, bad
		}
		d.Cfg.Log.Warn("the audit log is read from this server alone", "error", bad)
	}
	page, err := log.List(ctx, q)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListAuditEntriesResponse{Server: d.Cfg.Server}
	resp.Entries = d.auditEntries(page.Entries, q.Unnamed)
	if page.Next > 0 {
		resp.NextPageToken = strconv.FormatUint(page.Next, 10)
	}
	return resp, nil
}

func (d *auditService) fromHistory(ctx context.Context, q audit.Query, after *history.AuditCursor) (*apipb.ListAuditEntriesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	page, more, err := d.Cfg.AuditHistory.List(ctx, q, after)
	if err != nil {
		return nil, err
	}
	resp := &apipb.ListAuditEntriesResponse{Server: d.Cfg.Server, FromHistory: true}
	resp.Entries = d.auditEntries(page, q.Unnamed)
	if more {
		last := &page[len(page)-1]
		resp.NextPageToken = fmt.Sprintf("%s%d.%d.%s", placeInHistory, last.Time.UnixMicro(), last.Sequence, last.Server)
	}
	return resp, nil
}

// placeInHistory is the prefix of a page token for the history database. A page
// token for the history database contains a time, a sequence number and a
// server name. A page token for a server's own audit log contains only a
// sequence number.
const placeInHistory = "h"

// auditPlace parses a page token of the audit log.
func auditPlace(req *apipb.ListAuditEntriesRequest, q *audit.Query) (after *history.AuditCursor, err error) {
	token := req.GetPageToken()
	place, inHistory := strings.CutPrefix(token, placeInHistory)
	if !inHistory {
		if token != "" {
			if q.From, err = strconv.ParseUint(token, 10, 64); err != nil || q.From == 0 {
				return nil, badPageToken()
			}
		}
		return nil, nil
	}
	parts := strings.SplitN(place, ".", 3)
	if len(parts) < 3 || req.GetOwnLog() {
		return nil, badPageToken()
	}
	micros, badTime := strconv.ParseInt(parts[0], 10, 64)
	seq, badSeq := strconv.ParseInt(parts[1], 10, 64)
	if badTime != nil || badSeq != nil || seq < 1 || micros < 0 || micros > maxPlaceMicros || strings.ContainsRune(parts[2], 0) {
		return nil, badPageToken()
	}
	return &history.AuditCursor{At: time.UnixMicro(micros).UTC(), Server: parts[2], Sequence: uint64(seq)}, nil
}

// maxPlaceMicros is the end of the year 9999, which is the last year that both
// SQLite and PostgreSQL support.
const maxPlaceMicros = 253_402_300_799_999_999

// auditedBy returns the tenants whose audit entries a caller may read. If the result is nil, the caller may read
// all entries, including those without a tenant.
func auditedBy(who *ares.Identity) []string {
	names, all := roles.Tenants(who, roles.AuditRead)
	if all {
		return nil
	}
	out := []string{}
	for _, t := range names {
		if roles.Allows(who, roles.AuditRead, t, "") { // a binding to a queue is not enough
			out = append(out, t)
		}
	}
	return out
}

func auditQuery(req *apipb.ListAuditEntriesRequest, tenant string) (q audit.Query, err error) {
	q = audit.Query{
		User: req.GetUser(), Action: req.GetAction(), Object: req.GetObject(), Status: audit.Status(req.GetStatus()), Code: req.GetCode(),
		Limit: int(req.GetPageSize()), OldestFirst: req.GetOldestFirst(),
	}
	if tenant != "" {
		q.Tenants = []string{tenant}
	}
	switch q.Status {
	case "", audit.Done, audit.Refused, audit.Unknown:
	default:
		return q, ares.Errorf(ares.Invalid, "status: %q is not a status: use done, refused or unknown", ares.Clip(req.GetStatus())).At("status")
	}
	if q.Limit == 0 {
		q.Limit = DefaultPageSize
	}
	q.Since, q.Until, err = periodOf("since", req.GetSince(), "until", req.GetUntil())
	return q, err
}

// auditEntries converts entries to their public form. The argument `unnamed` is true for a reader that may not read the
// entries of all tenants.
func (d *auditService) auditEntries(page []audit.Entry, unnamed bool) (out []*apipb.AuditEntry) {
	for i := range page {
		if !unnamed || !d.isFormer(&page[i]) {
			out = append(out, newAuditEntry(&page[i], unnamed))
		}
	}
	return out
}

func newAuditEntry(e *audit.Entry, unnamed bool) *apipb.AuditEntry {
	if unnamed {
		e = new(e.WithoutActor())
	}
	m := &apipb.AuditEntry{
		Sequence: strconv.FormatUint(e.Sequence, 10), Time: timestamppb.New(e.Time), Server: e.Server, Cluster: e.Cluster, Action: e.Action,
		User: e.User, TenantId: e.Tenant, Outside: e.Outside, Object: e.Object, Source: e.Source, Door: e.Door,
		RequestDigest: e.Request, BeforeDigest: e.Before, AfterDigest: e.After, Status: string(e.Status), Code: e.Code,
		RequestId: e.RequestID, Detail: e.Detail, Count: int32(e.Count), Previous: e.Previous, Hash: e.Hash,
	}
	if !e.Since.IsZero() {
		m.Since = timestamppb.New(e.Since)
	}
	return m
}

// GetAuditHead implements apipb.AuditServiceServer.
func (d *auditService) GetAuditHead(ctx context.Context, _ *apipb.GetAuditHeadRequest) (*apipb.GetAuditHeadResponse, error) {
	log, err := d.log()
	if err != nil {
		return nil, err
	}
	h, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	return &apipb.GetAuditHeadResponse{Head: &apipb.AuditHead{
		Kind: string(h.Kind), N: strconv.FormatUint(h.Number, 10), Server: h.Server, Seq: strconv.FormatUint(h.Sequence, 10), Hash: h.Hash,
		Time: h.Time.Format(time.RFC3339Nano), Key: h.Key, Signature: h.Signature,
	}}, nil
}

// VerifyAudit implements apipb.AuditServiceServer.
func (d *auditService) VerifyAudit(ctx context.Context, req *apipb.VerifyAuditRequest) (*apipb.VerifyAuditResponse, error) {
	log, err := d.log()
	if err != nil {
		return nil, err
	}
	var check audit.Check
	if d.Cfg.AuditMarks != nil { // before the log is read: an entry that a mark remembers is then on disk
		check = d.Cfg.AuditMarks(ctx)
	}
	check.EndOnly = req.GetEndOnly()
	for _, m := range req.GetHeads() {
		h, bad := headOf(m)
		if bad != nil {
			return nil, bad
		}
		check.Heads = append(check.Heads, h)
	}
	r, err := log.Verify(check)
	if err != nil {
		return nil, err
	}
	resp := &apipb.VerifyAuditResponse{
		Ok: r.OK(), Server: d.Cfg.Server, Segments: int32(r.Segments), Entries: strconv.FormatUint(r.Entries, 10),
		First: strconv.FormatUint(r.First, 10), Last: strconv.FormatUint(r.Last, 10), Hash: r.Hash, Heads: int32(r.Heads),
		Signed: strconv.FormatUint(r.Signed, 10), Key: r.Key, MoreFaults: int32(r.More),
		Compared: r.Compared, NotCompared: r.NotCompared,
	}
	for _, f := range r.Faults {
		resp.Faults = append(resp.Faults, &apipb.AuditFault{File: f.File, Line: int32(f.Line), Text: f.Text})
	}
	return resp, nil
}

// headOf parses a signed head that the caller saved earlier. A signed head states
// the hash of one entry of an audit log.
func headOf(m *apipb.AuditHead) (h audit.Head, err error) {
	h = audit.Head{Kind: audit.HeadKind(m.GetKind()), Server: m.GetServer(), Hash: m.GetHash(), Key: m.GetKey(), Signature: m.GetSignature()}
	h.Number, err = strconv.ParseUint(m.GetN(), 10, 64)
	if err == nil {
		h.Sequence, err = strconv.ParseUint(m.GetSeq(), 10, 64)
	}
	if err == nil {
		h.Time, err = time.Parse(time.RFC3339Nano, m.GetTime())
	}
	if err != nil {
		return h, ares.Errorf(ares.Invalid, "heads: the list contains an invalid audit-log head: %s", err).At("heads")
	}
	return h, nil
}
