package federation

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// Reader is the user of the hub for whom a cluster is asked. The hub has checked that the user may read the job.
type Reader struct {
	Name   string
	Tenant string // of the job
	Queue  string // the only queue of the tenant that the user may see, "" for all of them
}

func (r Reader) read(kind apipb.OwnerRead_Kind, id ares.JobID, epoch int64) *apipb.OwnerRead {
	return &apipb.OwnerRead{Kind: kind, JobId: string(id), Epoch: epoch, TenantId: r.Tenant, Queue: r.Queue, Caller: ares.Truncate(r.Name, maxCaller)}
}

// maxCaller limits the name of a caller.
const maxCaller = 256

// OwnerRun returns the run of a bound job as its owner has it now, together with what happened before the job was bound. For a
// job that no cluster owns any more, it returns the hub's run.
func (h *Hub) OwnerRun(ctx context.Context, id ares.JobID, who Reader) (run *ares.Run, progress *ares.Progress, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	snap, g, base, err := h.Store.Granted(ctx, id)
	if err != nil || g == nil || g.State != ares.GrantBound {
		return &snap.Run, nil, err
	}
	var data []byte
	err = h.ask(ctx, g.Cluster, who.read(apipb.OwnerRead_KIND_RUN, id, g.Epoch), func(m *apipb.ReadAnswer) error {
		if m.GetRun() != nil {
			data = m.GetRun().GetRun()
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	owners, progress, err := decodeOwned(data, id)
	if err != nil {
		return nil, nil, err
	}
	if owners.Phase != ares.Returned { // on its way back to the hub
		if _, err = snap.Run.Mirror(&base, owners); err != nil {
			return nil, nil, err
		}
	}
	return &snap.Run, progress, nil
}

// OwnerLogs passes on output of a job that a cluster owns, or in which it has ended. The attempt is one of the given run. The
// parts have the number that the hub gives to the attempt.
func (h *Hub) OwnerLogs(ctx context.Context, run *ares.Run, a *ares.Attempt, req *apipb.StreamLogsRequest, who Reader, send func(*apipb.StreamLogsResponse) error) error {
	if a.Cluster != "" && a.Cluster != run.Cluster {
		return ares.Errorf(ares.NotFound, "attempt %d of job %s ran in cluster %s, which has given the job back since: ask a server of that cluster for its output", a.Number, ares.Clip(req.GetJobId()), a.Cluster)
	}
	q := who.read(apipb.OwnerRead_KIND_LOGS, ares.JobID(req.GetJobId()), run.Epoch)
	q.Logs, q.Fence = req, int64(a.Fence)
	return h.ask(ctx, run.Cluster, q, func(m *apipb.ReadAnswer) error {
		part := m.GetLogs()
		if part == nil {
			return nil
		}
		part.Attempt = int32(a.Number)
		return send(part)
	})
}

// OwnerExplanation returns the owner's explanation of a bound job, or nil if no cluster owns the job any more.
func (h *Hub) OwnerExplanation(ctx context.Context, id ares.JobID, who Reader) (e *apipb.Explanation, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	_, g, base, err := h.Store.Granted(ctx, id)
	if err != nil || g == nil || g.State != ares.GrantBound {
		return nil, err
	}
	err = h.ask(ctx, g.Cluster, who.read(apipb.OwnerRead_KIND_EXPLANATION, id, g.Epoch), func(m *apipb.ReadAnswer) error {
		if m.GetExplanation() != nil {
			e = m.GetExplanation()
		}
		return nil
	})
	for _, p := range e.GetPlacements() {
		p.Attempt += int32(base.Placed)
	}
	return e, err
}
