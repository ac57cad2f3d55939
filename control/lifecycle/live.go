package lifecycle

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

const (
	// liveAtOnce is the number of jobs that one transaction writes.
	liveAtOnce = 250
	// liveShare limits the time for which live jobs are written: after a transaction, the LivePublisher rests liveShare times as
	// long. So a burst of submissions leaves the database to the finished jobs.
	liveShare = 19
	// maxLiveChanges limits the changes that wait for the database. If there are more, all jobs are compared.
	maxLiveChanges = 200_000
	// compareEvery is how often all live jobs are compared with the database, besides the start of a leader.
	compareEvery = 10 * time.Minute
)

// LivePublisher copies live jobs and the use of tenants to the history database, where people query them with SQL. It runs on the
// leader. Changes are collected and written together, so the scheduler does not wait for the database, and a job that ends between two
// writes is never written as a live one.
type LivePublisher struct {
	Store      *store.Store
	View       *cache.View
	Accounting *accounting.Accounting
	Now        func() time.Time
	Log        *slog.Logger
	// The field Every is the interval at which changes are written. Default one second.
	Every time.Duration

	mu      sync.Mutex
	leads   bool
	compare bool                    // compare all jobs, because changes were missed
	changed map[ares.JobID]struct{} // jobs that changed since they were written
	writing int                     // jobs that were taken from changed and are not written yet

	compared time.Time
	tenants  []history.TenantUse // as last written
	wroteAll time.Time           // when tenants were written last
}

// Follow makes the view tell the LivePublisher of changes. It must be called before the view runs.
func (p *LivePublisher) Follow() { p.View.Feed(p.apply) }

// The method `apply` notes which jobs a batch changes. The view waits for it, so it does nothing else.
func (p *LivePublisher) apply(b ares.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leads {
		return
	}
	if b.Reset || len(p.changed) > maxLiveChanges {
		p.compare = true
		clear(p.changed)
		return
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Job != nil:
			p.changed[e.Job.ID] = struct{}{}
		case e.Run != nil:
			p.changed[e.Run.Job] = struct{}{}
		case e.Gone.Kind == ares.KindJob:
			p.changed[ares.JobID(e.Gone.ID)] = struct{}{}
		}
	}
}

// Backlog returns the number of jobs that changed and are not written yet. Backlog returns 0 on a server that is not the leader.
func (p *LivePublisher) Backlog() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.changed) + p.writing
}

func (p *LivePublisher) setWriting(jobs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing = jobs
}

// Run writes changes until ctx ends.
func (p *LivePublisher) Run(ctx context.Context, _ *store.Leadership) error {
	p.lead(true)
	defer p.lead(false)
	rest := cmp.Or(p.Every, time.Second)
	owned, failed := false, false
	for wait := rest; pause.For(ctx, wait); {
		err := p.checkOwner(ctx, &owned)
		if err == nil {
			err = p.write(ctx)
		}
		switch {
		case err == nil:
			wait, failed = rest, false
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			if wait = min(2*wait, recordRest); !failed { // the Archiver logs each failure of the database
				p.Log.Warn("live jobs in the history database are not up to date until it answers", "error", err)
			}
			failed = true
		}
	}
	return ctx.Err()
}

// The method `lead` begins or ends the collection of changes. A new leader compares all jobs first.
func (p *LivePublisher) lead(leads bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leads, p.compare, p.changed = leads, leads, map[ares.JobID]struct{}{}
	p.wroteAll = time.Time{}
}

func (p *LivePublisher) checkOwner(ctx context.Context, owned *bool) error {
	if *owned {
		return nil
	}
	id, _, err := p.Store.Identity(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	if err = p.Accounting.History.CheckOwner(ctx, id.Store); err == nil {
		*owned = true
	}
	return err
}

// The method `write` writes everything that changed.
func (p *LivePublisher) write(ctx context.Context) error {
	if err := p.writeTenants(ctx); err != nil {
		return err
	}
	changed, compare := p.take()
	var outdated []ares.JobID
	if compare || p.Now().Sub(p.compared) >= compareEvery {
		var err error
		if outdated, err = p.compareAll(ctx, changed); err != nil {
			p.giveBack(nil, true)
			return err
		}
		p.compared = p.Now()
	}
	for len(outdated) > 0 { // first, because a job that is written again must replace a version that counts as newer
		part := outdated[:min(len(outdated), liveAtOnce)]
		if err := p.put(ctx, nil, part); err != nil {
			p.giveBack(nil, true)
			return err
		}
		outdated = outdated[len(part):]
	}
	defer p.setWriting(0)
	for part := range slices.Chunk(slices.Sorted(maps.Keys(changed)), liveAtOnce) {
		p.setWriting(len(changed))
		jobs, gone := p.current(part)
		if err := p.put(ctx, jobs, gone); err != nil {
			p.giveBack(changed, false)
			return err
		}
		for _, id := range part {
			delete(changed, id)
		}
	}
	return nil
}

// The method `take` returns the changes and begins a new collection.
func (p *LivePublisher) take() (changed map[ares.JobID]struct{}, compare bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, compare = p.changed, p.compare
	p.changed, p.compare = map[ares.JobID]struct{}{}, false
	return changed, compare
}

// The method `giveBack` notes changes that could not be written.
func (p *LivePublisher) giveBack(changed map[ares.JobID]struct{}, compare bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.changed, changed)
	p.compare = p.compare || compare
}

// The method `put` runs one transaction, and rests.
func (p *LivePublisher) put(ctx context.Context, jobs []history.LiveJob, gone []ares.JobID) error {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	if err := p.Accounting.History.PutLive(within, jobs, gone); err != nil {
		return err
	}
	if !pause.For(ctx, liveShare*time.Since(began)) {
		return ctx.Err()
	}
	return nil
}

// The method `current` divides jobs into those to write and those to remove. A finished job that is in history is listed there.
func (p *LivePublisher) current(ids []ares.JobID) (jobs []history.LiveJob, gone []ares.JobID) {
	for _, id := range ids {
		e := p.View.Job(id)
		if e == nil || e.Run.Phase.Final() && !p.Accounting.IsUnrecorded(id) {
			gone = append(gone, id)
			continue
		}
		jobs = append(jobs, history.LiveJob{Job: e.Job, Run: &e.Run})
	}
	return jobs, gone
}

// compareAll adds all jobs that the database does not have in their current version to `changed`. It returns the jobs whose row must be
// removed: those that are no longer live, and those with a version that this store does not have, for example after a restore.
func (p *LivePublisher) compareAll(ctx context.Context, changed map[ares.JobID]struct{}) (outdated []ares.JobID, err error) {
	there := map[ares.JobID]history.LiveVersion{}
	const page = 10_000
	for after := ares.JobID(""); ; {
		part, last, err := p.Accounting.History.LiveVersions(ctx, after, page)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			break
		}
		maps.Copy(there, part)
		after = last
	}
	for _, e := range p.View.Jobs(cache.Filter{Elements: true}).Entries {
		if e.Run.Phase.Final() && !p.Accounting.IsUnrecorded(e.Job.ID) {
			continue // its row, if there is one, is removed below
		}
		was, has := there[e.Job.ID]
		delete(there, e.Job.ID)
		if has && was == (history.LiveVersion{Accepted: e.Job.Revision, Run: e.Run.Revision}) {
			continue
		}
		changed[e.Job.ID] = struct{}{}
		if has && (was.Accepted != e.Job.Revision || was.Run > e.Run.Revision) {
			outdated = append(outdated, e.Job.ID)
		}
	}
	return slices.AppendSeq(outdated, maps.Keys(there)), nil
}

// writeTenants writes the tenants with their use, if it changed. Once a minute it writes them in any case, so that the column as_of
// shows that the rows are current.
func (p *LivePublisher) writeTenants(ctx context.Context) error {
	var all []history.TenantUse
	for _, t := range p.View.Tenants() {
		use, waiting := p.View.Use(t.ID)
		all = append(all, history.TenantUse{Tenant: t, Use: use, Waiting: waiting})
	}
	now := p.Now()
	age := now.Sub(p.wroteAll)
	if age < time.Minute && (age < tenantsRest(len(all)) || reflect.DeepEqual(all, p.tenants)) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	if err := p.Accounting.History.PutTenants(ctx, all, now); err != nil {
		return err
	}
	p.tenants, p.wroteAll = all, now
	return nil
}

// tenantsRest is the shortest time between two writes of all tenants. The more tenants there are, the longer it is.
func tenantsRest(tenants int) time.Duration { return time.Duration(tenants) * 10 * time.Millisecond }
