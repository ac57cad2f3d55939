package service

import (
	"cmp"
	"context"
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/joblog"
	"github.com/ares-scheduler/ares/objects/logs"
)

// maxStoredLog limits the stored output of one rank. A rank keeps at most 64 MiB, and somewhat more after a crash.
const maxStoredLog = 128 << 20

// StoreLogs stores the output of ended ranks. A node can store only the output of its own ranks, each under the fence of its attempt.
func (d *AgentService) StoreLogs(ctx context.Context, req *apipb.StoreLogsRequest) (*apipb.StoreLogsResponse, error) {
	ref := req.GetRef()
	// The view is enough: a log is bound to a fence that never changes, so it does no harm if the session has just ended.
	if err := d.awaitSession(ctx, ref); err != nil {
		return nil, err
	}
	if n := d.View.Node(ref.GetNodeId()); n == nil || n.Session == nil || n.Session.Revision != ref.GetSession() {
		return nil, ares.Errorf(ares.Fenced, "the session of node %s has ended, or a newer one was opened: open a new session", ref.GetNodeId())
	}
	if d.Logs == nil {
		return nil, ares.Errorf(ares.FeatureDisabled, "%s", cmp.Or(d.NoLogs, "this server does not store the output of jobs"))
	}
	if err := d.awaitEnds(ctx, req); err != nil {
		return nil, err
	}
	resp := &apipb.StoreLogsResponse{}
	var entries []logs.Entry
	for _, l := range req.GetLogs() {
		entry, result := d.judgeLog(ref.GetNodeId(), l)
		resp.Results = append(resp.Results, result)
		if entry.Log != nil {
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return resp, nil
	}
	return resp, d.Logs.Put(ctx, entries)
}

// awaitEnds waits until this server's view has the ends of the ranks. Another server may have stored them just now.
func (d *AgentService) awaitEnds(ctx context.Context, req *apipb.StoreLogsRequest) error {
	for _, l := range req.GetLogs() {
		if _, result := d.judgeLog(req.GetRef().GetNodeId(), l); result.GetLater() || result.GetRefused() != "" {
			now, err := d.Store.Revision(ctx)
			if err != nil {
				return err
			}
			waiting, cancel := context.WithTimeout(ctx, maxListWait)
			defer cancel()
			return d.View.WaitFor(waiting, now)
		}
	}
	return nil
}

// judgeLog returns what is stored of a log, and the answer for the node. The entry has no log if nothing is stored.
func (d *AgentService) judgeLog(node string, l *apipb.StoredLog) (logs.Entry, *apipb.StoreLogResult) {
	refused := func(format string, args ...any) (logs.Entry, *apipb.StoreLogResult) {
		return logs.Entry{}, &apipb.StoreLogResult{Refused: fmt.Sprintf(format, args...)}
	}
	if why := badFiles(l); why != "" {
		return refused("%s", why)
	}
	e := d.View.Job(ares.JobID(l.GetSeat().GetJobId()))
	if e == nil {
		return refused("the job is archived")
	}
	for i := range e.Run.Attempts {
		a := &e.Run.Attempts[i]
		if int64(a.Fence) != l.GetSeat().GetFence() {
			continue
		}
		for k := range a.Seats {
			h := &a.Seats[k]
			switch {
			case h.Rank != int(l.GetSeat().GetRank()) || h.Node != node:
				continue
			case !hasEnded(a, h):
				return logs.Entry{}, &apipb.StoreLogResult{Later: true}
			}
			return logs.Entry{Tenant: e.Job.Tenant, Placed: a.PlacedAt, Log: l}, &apipb.StoreLogResult{}
		}
	}
	return refused("the record of this attempt was deleted, or it had no such rank on this node")
}

// hasEnded reports whether a rank prints nothing any more.
func hasEnded(a *ares.Attempt, h *ares.SeatStatus) bool {
	return a.Ended() || h.State != ares.SeatPlaced && h.State != ares.SeatClaimed
}

// badFiles returns what is wrong with the files of a log, or "".
func badFiles(l *apipb.StoredLog) string {
	total, end := int64(0), int64(0)
	for _, f := range l.GetFiles() {
		if f.GetSize() > maxStoredLog || f.GetStart() > 1<<62 || f.GetStart() < end {
			return fmt.Sprintf("the file at offset %d is larger than %d bytes, or overlaps another one", f.GetStart(), int64(maxStoredLog))
		}
		end = f.GetStart() + f.GetSize()
		total += f.GetSize()
		for _, p := range f.GetPieces() {
			if p.GetOffset() < f.GetStart() || p.GetOffset() > end-int64(p.GetSize()) {
				return fmt.Sprintf("the piece at offset %d is outside its file", p.GetOffset())
			}
		}
	}
	if total > maxStoredLog {
		return fmt.Sprintf("it has %d bytes, and at most %d are stored", total, int64(maxStoredLog))
	}
	return ""
}

// storedSearches has a value for each search for a line that runs now. The server needs its processors for other things.
var storedSearches = make(chan struct{}, 2)

// fromStore sends the stored output of a rank that has ended. The argument `away` is the reason why its node did not send it.
func (f *Files) fromStore(ctx context.Context, q LogQuery, a *ares.Attempt, h *ares.SeatStatus, away error, send func(LogPart) error) error {
	if f.Stored == nil {
		return away
	}
	found, err := f.Stored.Find(ctx, logs.Rank{Tenant: q.Entry.Job.Tenant, Placed: a.PlacedAt, Job: string(q.Job), Fence: int64(a.Fence), Rank: h.Rank})
	if err != nil {
		return err
	}
	if found == nil {
		return f.notStored(&q, h, away)
	}
	log := joblog.New(found)
	defer func() { _ = log.Close() }()
	wanted := q.forAgent(a, h)
	query, err := wanted.Select(func(search func()) {
		storedSearches <- struct{}{} // the search for one line ends soon
		defer func() { <-storedSearches }()
		search()
	})
	if err != nil {
		return ares.Errorf(ares.Invalid, "grep: %s", err).At("grep")
	}
	if found.Gone > 0 && (q.Offset == nil || *q.Offset == 0) {
		notice := fmt.Sprintf("the first %d bytes of its stored output were deleted (objects.log_days, objects.tenant_log_mb)", found.Gone)
		if err = send(LogPart{Notice: notice}); err != nil {
			return err
		}
	}
	return log.Send(ctx, query, func(p joblog.Part) error {
		part := LogPart{Data: p.Data, Offset: p.Offset, CompleteUntil: apipb.Timestamp(p.CompleteUntil)}
		for i := range p.Lines {
			part.Lines = append(part.Lines, apipb.NewLogLine(int32(h.Rank), &p.Lines[i]))
		}
		return send(part)
	})
}

// notStored returns the error for output that neither its node nor the servers have. The argument `away` is what the node's side said.
func (f *Files) notStored(q *LogQuery, h *ares.SeatStatus, away error) error {
	if f.View.Node(h.Node) == nil {
		return ares.Errorf(ares.NotFound, "the output of job %s, rank %d, was on node %s, which was removed, and is not stored at the servers", q.Job, h.Rank, h.Node)
	}
	return ares.Errorf(ares.CodeOf(away), "%s; its output is not stored at the servers either", away)
}
