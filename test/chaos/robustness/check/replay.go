package check

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// A `state` is one version of a job's records in the store. A `state` is
// immutable.
type state struct {
	epoch    int
	revision int64         // of the latest change, as an answer about the job would carry it
	at       time.Duration // when the recorder saw it
	job      *ares.Job     // nil if the record shows only that the job is archived
	run      *ares.Run     // nil if not stored (the job is pending), or if the job is archived
	phase    ares.Phase    // "" if the job is only known to be archived
	finalAt  int64         // the revision that made it final, as far as the record shows; 0 before
	gone     bool          // archived
	dropped  bool          // its tombstone was removed, so its request ID may be used again
}

func (s *state) ended() bool { return s != nil && (s.gone || s.phase.Final()) }

func (s *state) attempts() []ares.Attempt {
	if s == nil || s.run == nil {
		return nil
	}
	return s.run.Attempts
}

func (s *state) placed() int {
	if s == nil || s.run == nil {
		return 0
	}
	return s.run.Placed
}

func (s *state) stop() ares.StopWhy {
	if s == nil || s.run == nil || s.run.Stop == nil || s.phase.Final() {
		return ""
	}
	return s.run.Stop.Why
}

// This type describes one change of one job's records. If a revision changes a
// job's records twice, that counts as one change. No client could see the state
// in between.
type change struct {
	id       string
	was, now *state
	entry    *trace.Entry
	gap      bool           // revisions in between are not recorded
	restore  *trace.Restore // the step was made by a restore from a backup
}

// A `follower` checks the store's changes one after another.
type follower interface {
	step(c *change)
	// `settle` is called after all changes of a revision. The last parameter is
	// the next revision at which the store may have changed.
	settle(e *trace.Entry, until int64)
}

// A `span` is a range of revisions that the record lacks. The missing revisions
// lie strictly between the values of the two fields.
type span struct{ after, before int64 }

// The type `book` holds the history of the store. One replay of the record
// builds this history.
type book struct {
	*judge
	jobs      map[string]*state
	history   map[string][]*state
	nodes     map[string]*machine
	fences    *fences
	gaps      []span
	followers []follower
	epoch     int // number of restores so far
	last      int64
}

// The type `machine` holds the largest capacity that a node ever reported. A
// node may lose a device after a placement was decided. The node's current
// record is therefore not the limit.
type machine struct {
	devices      map[string]bool
	cpus, memory int
}

func (j *judge) replay() *book {
	b := &book{judge: j, jobs: map[string]*state{}, history: map[string][]*state{}, nodes: map[string]*machine{}}
	b.fences = &fences{book: b, given: map[string]map[int64]given{}}
	if j.run.Meta.Hub {
		b.followers = []follower{&copies{b}, &losses{b}, newLists(b)}
		b.replayAll()
		return b
	}
	b.followers = []follower{
		&commits{b}, b.fences, &losses{b},
		&shares{book: b, devices: map[device]int{}, cpus: map[string]int{}, memory: map[string]int{}, touched: map[device]bool{}, full: map[string]bool{}},
		&quotas{book: b, use: map[string]use{}, touched: map[string]bool{}, over: map[string]bool{}},
		newLists(b), newLaws(b),
	}
	b.replayAll()
	return b
}

func (b *book) replayAll() {
	for i := range b.run.Store {
		e := &b.run.Store[i]
		if !b.apply(e) {
			continue
		}
		until := e.Batch.Revision + 1
		if i+1 < len(b.run.Store) && !b.run.Store[i+1].Batch.Reset {
			until = max(until, b.run.Store[i+1].Batch.Revision)
		}
		for _, f := range b.followers {
			f.settle(e, until)
		}
	}
}

// This method reports whether the record lacks a revision. Revisions before the
// start of the record count as missing too.
func (b *book) unseen(revision int64) bool {
	if len(b.run.Store) == 0 || revision < b.run.Store[0].Batch.Revision || revision > b.last {
		return true
	}
	for _, g := range b.gaps {
		if g.after < revision && revision < g.before {
			return true
		}
	}
	return false
}

func (b *book) apply(e *trace.Entry) bool {
	rev := e.Batch.Revision
	if !e.Batch.Reset {
		if rev <= b.last {
			b.wrong(CleanRecord, "", e.At, "revision %d was recorded after %d", rev, b.last)
			return false
		}
		if b.last == 0 {
			b.wrong(CleanRecord, "", e.At, "the record begins at revision %d without a snapshot: what was there before is unknown", rev)
		}
		b.steps(b.drafts(e, false), &change{entry: e})
		b.last = rev
		return true
	}
	c := &change{entry: e, restore: b.restoreBefore(e), gap: b.last > 0 && rev > b.last+1}
	switch {
	case c.restore != nil && rev <= c.restore.Highest:
		b.wrong(CleanRecord, "", e.At, "the store was restored to revision %d, not above %d, which it had reached before: fences will be used again", rev, c.restore.Highest)
	case c.restore == nil && rev < b.last:
		b.wrong(CleanRecord, "", e.At, "the store went back from revision %d to %d without a restore", b.last, rev)
	}
	if c.gap {
		b.gaps = append(b.gaps, span{b.last, rev})
		if c.restore == nil {
			b.Totals.Gaps++
		}
	}
	now := b.drafts(e, true)
	for id := range b.jobs {
		if now[id] == nil {
			now[id] = nil
		}
	}
	b.steps(now, c)
	b.last = rev
	return true
}

// restoreBefore returns the restore between the previous snapshot and this one,
// or nil. Several restores between two snapshots count as one.
func (b *book) restoreBefore(e *trace.Entry) *trace.Restore {
	var out *trace.Restore
	for ; b.epoch < len(b.run.Meta.Restores); b.epoch++ {
		r := b.run.Meta.Restores[b.epoch]
		if e.At < r.At && e.Batch.Revision <= r.Highest {
			break
		}
		if out == nil {
			out = &r
			continue
		}
		out.Backup, out.Highest = min(out.Backup, r.Backup), max(out.Highest, r.Highest)
	}
	return out
}

// This method returns the new states of the jobs that one store revision
// changes.
func (b *book) drafts(e *trace.Entry, fresh bool) map[string]*state {
	out := map[string]*state{}
	draft := func(id string) *state {
		if out[id] == nil {
			out[id] = &state{}
			if was := b.jobs[id]; was != nil && !fresh {
				*out[id] = *was
			}
		}
		return out[id]
	}
	for i := range e.Batch.Events {
		switch ev := &e.Batch.Events[i]; {
		case ev.Job != nil:
			s := draft(string(ev.Job.ID))
			s.job, s.gone, s.dropped = ev.Job, false, false
		case ev.Run != nil:
			s := draft(string(ev.Run.Job))
			if s.gone {
				b.wrong(OneCommit, string(ev.Run.Job), e.At, "it was archived and has a run again at revision %d: %s", ev.Revision, ev.Run.Run.Phase)
			}
			s.run = &ev.Run.Run
		case ev.Node != nil:
			b.describe(ev.Node)
		case ev.Gone.Kind == ares.KindJob:
			s := draft(ev.Gone.ID)
			s.dropped = s.gone
			s.gone, s.revision = true, ev.Revision
		case ev.Gone.Kind == ares.KindRun:
			draft(ev.Gone.ID).run = nil
		}
	}
	for id, s := range out {
		b.finish(e, s, b.jobs[id])
		if s.job == nil && s.run != nil {
			b.wrong(OneCommit, id, e.At, "a run is stored at revision %d for a job that was never accepted", e.Batch.Revision)
		}
	}
	return out
}

// Some fields of a state follow from the job's records. The method `finish`
// computes these fields.
func (b *book) finish(e *trace.Entry, s, was *state) {
	s.epoch, s.at = b.epoch, e.At
	switch {
	case s.gone:
		s.run = nil
		if was != nil && was.epoch == s.epoch {
			s.job, s.phase = was.job, was.phase
		}
	case s.run == nil:
		s.phase, s.finalAt = ares.Pending, 0
	default:
		s.phase = s.run.Phase
	}
	if !s.gone {
		s.revision = 0
		if s.job != nil {
			s.revision = s.job.Revision
		}
		if s.run != nil {
			s.revision = max(s.revision, s.run.Revision)
		}
	}
	switch {
	case !s.ended():
		s.finalAt = 0
	case was.ended() && was.epoch == s.epoch:
		s.finalAt = was.finalAt
	default:
		s.finalAt = s.revision
	}
}

func (b *book) describe(n *ares.Node) {
	m := b.nodes[n.ID]
	if m == nil {
		m = &machine{devices: map[string]bool{}}
		b.nodes[n.ID] = m
	}
	for _, d := range n.Devices {
		m.devices[d.ID] = true
	}
	m.cpus, m.memory = max(m.cpus, n.CPUs), max(m.memory, n.MemoryMB)
}

// This method builds the change of each job and passes it to the followers.
func (b *book) steps(now map[string]*state, like *change) {
	for id, s := range now {
		was := b.jobs[id]
		if like.entry.Batch.Reset && like.restore == nil && s != nil && was != nil && s.revision == was.revision && s.gone == was.gone {
			continue // a snapshot that does not change it
		}
		c := *like
		c.id, c.was, c.now = id, was, s
		for _, f := range b.followers {
			f.step(&c)
		}
		if s == nil {
			delete(b.jobs, id)
			continue
		}
		b.jobs[id] = s
		b.history[id] = append(b.history[id], s)
	}
}
