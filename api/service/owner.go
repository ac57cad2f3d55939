package service

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// Owners asks the clusters that own the jobs of a hub. The pipeline has checked that the caller may read the job.
type Owners interface {
	// OwnerRun returns the run of a bound job as its owner has it now. The attempts have the numbers that the hub gives them.
	OwnerRun(ctx context.Context, id ares.JobID, who Reader) (*ares.Run, *ares.Progress, error)
	// OwnerLogs sends the output of an attempt of the given run.
	OwnerLogs(ctx context.Context, run *ares.Run, a *ares.Attempt, req *apipb.StreamLogsRequest, who Reader, send func(*apipb.StreamLogsResponse) error) error
	// OwnerExplanation returns the owner's explanation of a bound job, or nil if no cluster owns the job any more.
	OwnerExplanation(ctx context.Context, id ares.JobID, who Reader) (*apipb.Explanation, error)
	// Outlook returns what the hub expects of each cluster for a job that no cluster owns, the best first. The run is nil if the job is
	// only planned, and the prediction is nil if there is none.
	Outlook(ctx context.Context, job *ares.Job, run *ares.Run, predicted *ares.RuntimePredicted) ([]*apipb.ClusterOutlook, error)
	// OfferedTo returns the clusters to which a job is offered now.
	OfferedTo(id ares.JobID) []string
	// Heard returns when this server has heard a cluster last, or false if it never has.
	Heard(cluster string) (time.Time, bool)
}

// Reader is the user for whom a cluster is asked.
type Reader struct {
	Name   string
	Tenant string // of the job
	Queue  string // the only queue of the tenant that the user may see, "" for all of them
}

func readerOf(ctx context.Context, job *ares.Job) Reader {
	r := Reader{Name: pipeline.CallerName(ctx), Tenant: job.Tenant}
	if !visibilityOf(ctx).sees(job.Tenant, "") {
		r.Queue = job.Queue
	}
	return r
}

// isOwned reports whether another cluster owns a job of this hub, so that only that cluster knows its latest state.
func (d *Services) isOwned(run *ares.Run) bool {
	return d.Cfg.Federation.Owners != nil && run.IsBound()
}

// waitsThere returns the short reason for waiting of a job that another cluster owns.
func waitsThere(j *ares.Job, r *ares.Run) []string {
	if !waits(j, r) {
		return nil
	}
	return []string{"it waits in cluster " + r.Cluster + ": `ares job explain` asks that cluster why"}
}

// notClaimed returns the short reason for waiting of a job that no cluster owns, and that the hub itself does not hold back. It is "" in a
// cluster.
func (d *Services) notClaimed(id ares.JobID) string {
	if d.Cfg.Federation.Owners == nil {
		return ""
	}
	if names := d.Cfg.Federation.Owners.OfferedTo(id); len(names) > 0 {
		return "it is offered to " + strings.Join(names, ", ") + ", and not claimed yet"
	}
	return "it is offered to no cluster: `ares job explain` says why"
}

// ownerState replaces the hub's copy of a run by the owner's run. If the owner cannot be asked, the copy stays, and the result
// says why.
func (d *Services) ownerState(ctx context.Context, snap *store.Snapshot) (stale string, err error) {
	if !d.isOwned(&snap.Run) {
		return "", nil
	}
	run, progress, err := d.Cfg.Federation.Owners.OwnerRun(ctx, snap.Job.ID, readerOf(ctx, snap.Job))
	switch code := ares.CodeOf(err); {
	case err == nil:
		snap.Run = *run
		if progress != nil {
			snap.Progress = progress
		}
		return "", nil
	case ctx.Err() == nil && (code == ares.Unavailable || code == ares.Exhausted || code == ares.NotFound): // the job is on its way back, or was just claimed
		return err.Error(), nil
	}
	return "", err
}

// asOf says from which revision of the owner the hub's copy of a run is, and how old the copy may be.
func (d *Services) asOf(run *ares.Run) (revision string, age *float64) {
	if !d.isOwned(run) {
		return "", nil
	}
	if at, ok := d.Cfg.Federation.Owners.Heard(run.Cluster); ok {
		age = new(max(time.Since(at), 0).Seconds())
	}
	return strconv.FormatInt(run.AsOf, 10), age
}

// ownerExplains returns the owner's explanation of a bound job, or nil if this hub explains the job itself: if no cluster owns
// it, and if the owner of a job that does not wait cannot be asked.
func (d *Services) ownerExplains(ctx context.Context, snap *store.Snapshot) (*apipb.Explanation, error) {
	if !d.isOwned(&snap.Run) {
		return nil, nil
	}
	e, err := d.Cfg.Federation.Owners.OwnerExplanation(ctx, snap.Job.ID, readerOf(ctx, snap.Job))
	if code := ares.CodeOf(err); (code == ares.Unavailable || code == ares.Exhausted) && !waits(snap.Job, &snap.Run) {
		return nil, nil
	}
	return e, err
}

// atHub completes the explanation of a job that waits at a hub, or would wait there: it adds what the hub expects of each cluster, and
// removes what the engine says of nodes, because a hub has none. What remains are the hub's own reasons: quotas, dependencies
// and the order of the queue. In a cluster, the method does nothing.
func (d *Services) atHub(ctx context.Context, e *apipb.Explanation, job *ares.Job, run *ares.Run, p *ares.RuntimePredicted) (err error) {
	if d.Cfg.Federation.Owners == nil {
		return nil
	}
	e.Blockers = slices.DeleteFunc(e.Blockers, func(b *apipb.Blocker) bool { return isAboutNodes(b.GetKind()) })
	e.Remedies, e.Holders, e.Eta, e.Hold = nil, nil, nil, nil
	e.Clusters, err = d.Cfg.Federation.Owners.Outlook(ctx, job, run, p)
	return err
}

// isAboutNodes reports whether a kind of blockers depends on nodes.
func isAboutNodes(kind string) bool {
	switch kind {
	case ares.BlockerNodes, ares.BlockerCapacity, ares.BlockerAffinity, ares.BlockerReservation, ares.BlockerPreemption:
		return true
	}
	return false
}

// ownerLogs sends output of an attempt that ran in another cluster.
func (d *Services) ownerLogs(ctx context.Context, q *LogQuery, req *apipb.StreamLogsRequest, send func(*apipb.StreamLogsResponse) error) error {
	run := &q.Entry.Run
	if run.Cluster == "" {
		return ares.Errorf(ares.Conflict, "no cluster has job %s now, so nobody has its output: use --follow to wait for its next attempt", q.Job)
	}
	a, _ := q.Seat()
	return d.Cfg.Federation.Owners.OwnerLogs(ctx, run, a, req, readerOf(ctx, q.Entry.Job), send)
}
