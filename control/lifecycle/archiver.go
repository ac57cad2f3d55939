package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// Archiver moves finished jobs out of the live store. Soon after a job ends, the Archiver copies it to history. After the time
// ArchiveAfter, the Archiver writes a line to an append-only archive and replaces the job by a tombstone. With the tombstone, a repeated
// request still finds its job. A job stays live until it is in history, so no job is lost when the database is unavailable. The Archiver
// runs on the leader, and no other component waits for it.
type Archiver struct {
	Store   *store.Store
	View    *cache.View
	Archive *Journal
	Now     func() time.Time
	Log     *slog.Logger
	// Accounting provides the history to write to. If Accounting is nil, nothing is written to
	// history.
	Accounting *accounting.Accounting
	// Retention is how long history keeps a job after its end. 0 means forever.
	Retention time.Duration
	// Currency is the currency of the bills.
	Currency string
	// The function Wrote is called after each write to history, with the number of jobs or the error. This function may be nil.
	Wrote func(jobs int, err error)
	// AddUsage adds the usage of a job to the usage of its queue's archived jobs. If AddUsage is nil, usage is not
	// counted.
	AddUsage func(id ares.JobID, before ares.Usage, at time.Time) ares.Usage
	// ArchiveAfter is how long a finished job stays live. Default 24 h.
	ArchiveAfter time.Duration
	// RememberFor is how long a request is remembered after its job has ended.
	// Default 7 days.
	RememberFor time.Duration
	// The field Every is the interval at which jobs are archived. Default one minute.
	Every time.Duration
	// RecordEvery is the interval at which jobs are copied to history. Default one second.
	RecordEvery time.Duration

	owned   bool         // history was checked to belong to this store
	backlog atomic.Int64 // jobs that ended and are not in history
	oldest  atomic.Int64 // when the first of them ended, in seconds; 0 for none
}

// archivedJob is one line of the archive file.
type archivedJob struct {
	Job ares.Job `json:"job"`
	Run ares.Run `json:"run"`
}

// Run archives finished jobs until ctx ends.
func (r *Archiver) Run(ctx context.Context, lead *store.Leadership) error {
	defer r.tell(nil) // from now on the next leader reports
	lastArchive, lastForget := time.Time{}, time.Time{}
	rest := cmp.Or(r.Every, time.Minute)
	if r.Accounting != nil {
		rest = cmp.Or(r.RecordEvery, time.Second)
	}
	for wait := rest; ; {
		wait = r.record(ctx, rest, wait)
		if time.Since(lastArchive) >= cmp.Or(r.Every, time.Minute) {
			lastArchive = time.Now()
			r.warn(ctx, "archive finished jobs", r.ArchiveDue(ctx, lead))
		}
		if time.Since(lastForget) > time.Hour {
			lastForget = time.Now()
			n, err := r.Store.Forget(ctx, r.Now().Add(-cmp.Or(r.RememberFor, 7*24*time.Hour)), lead)
			if r.warn(ctx, "forget old requests", err); n > 0 {
				r.Log.Info("forgot old requests", "count", n)
			}
			r.warn(ctx, "close the bills of months that ended", r.closeMonths(ctx)) // before old jobs are removed
			r.warn(ctx, "remove old jobs from history", r.prune(ctx))
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
	}
}

func (r *Archiver) warn(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("archiving failed and is tried again", "doing", doing, "error", err)
	}
}

// maxNoticeTime is how much longer a job stays live while notifications about it are not delivered.
const maxNoticeTime = 2 * time.Hour

// ArchiveDue archives the jobs that finished at least ArchiveAfter ago. ArchiveDue writes to the archive file before it removes the live
// job. After a crash, a job may therefore be in the archive file twice, but it is never missing.
func (r *Archiver) ArchiveDue(ctx context.Context, lead *store.Leadership) error {
	before := r.Now().Add(-cmp.Or(r.ArchiveAfter, 24*time.Hour))
	finished := []ares.Phase{ares.Succeeded, ares.Failed, ares.Cancelled, ares.Lost, ares.Returned}
	for _, e := range r.View.Jobs(cache.Filter{Phases: finished, Elements: true}).Entries {
		if e.Run.FinishedAt.After(before) || !e.Run.Free() || r.unrecorded(e) || len(e.Run.DueNotices(e.Job)) > 0 && !e.Run.FinishedAt.Before(before.Add(-maxNoticeTime)) {
			continue
		}
		if e.Job.ArrayOf != "" && r.View.Job(e.Job.ArrayOf) != nil {
			continue // archived together with its array
		}
		if err := r.archiveOne(ctx, e, lead); err != nil && ares.CodeOf(err) != ares.Conflict {
			return fmt.Errorf("archive %s: %w", e.Job.ID, err)
		}
	}
	return nil
}

// archiveOne archives one job; an array is archived together with all its elements. If other jobs depend on the job,
// it stays live and archiveOne returns a conflict.
func (r *Archiver) archiveOne(ctx context.Context, e *cache.Entry, lead *store.Leadership) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	awaited, revision := r.View.Awaited(e.Job.ID)
	if awaited {
		return ares.Errorf(ares.Conflict, "job %s cannot be archived, because other jobs depend on it", e.Job.ID)
	}
	var elements []*cache.Entry
	if e.Job.IsArray() {
		elements = r.View.Jobs(cache.Filter{ArrayOf: e.Job.ID}).Entries
	}
	for _, el := range elements {
		if awaited, _ := r.View.Awaited(el.Job.ID); awaited || !el.Run.Phase.Final() || !el.Run.Free() || r.unrecorded(el) {
			return ares.Errorf(ares.Conflict, "array %s cannot be archived yet, because its element %d cannot be archived yet", e.Job.ID, el.Job.ArrayIndex)
		}
	}
	// The array's line is written before the lines of its elements. So when a restore reads an
	// element, it already knows that the array has ended.
	if err := r.Archive.Append(archivedJob{history.WithoutEnvironment(e.Job), e.Run}); err != nil {
		return err
	}
	for _, el := range elements {
		if err := r.archiveOne(ctx, el, lead); err != nil {
			return err
		}
	}
	usage, err := r.used(ctx, e.Job)
	if err != nil {
		return err
	}
	return r.Store.ArchiveUsed(ctx, e.Job, &e.Run, usage, lead, revision)
}

// The method `used` returns the total usage of the queue's archived jobs, including this job. The result is nil if this job used nothing.
func (r *Archiver) used(ctx context.Context, j *ares.Job) (*ares.Usage, error) {
	if r.AddUsage == nil {
		return nil, nil
	}
	before, err := r.Store.Usage(ctx, j.Tenant, j.Queue)
	if err != nil {
		return nil, err
	}
	after := r.AddUsage(j.ID, before, r.Now())
	if after == before {
		return nil, nil
	}
	return &after, nil
}
