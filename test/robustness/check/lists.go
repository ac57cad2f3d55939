package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// O5b: a list comes from a server's own copy of the store, so it may be late,
// but it is never wrong: it is exactly the live jobs at the revision it
// carries, no older than the caller asked for. And a server never leads its
// callers back: a list that begins after another of the same server has ended
// is no older. This holds over restarts of the server too: it serves nobody
// before it has read the store up to a revision that it asked for at its start,
// and nothing it showed before was above that. Between servers nothing is
// promised.

// lists compares contents while the store is gone through.
type lists struct {
	*book
	waiting []*trace.Call // by revision
	stamp   map[string]int
	round   int
	live    int // jobs that are not archived, elements aside
}

func newLists(b *book) *lists {
	f := &lists{book: b, stamp: map[string]int{}}
	for i := range b.run.Calls {
		c := &b.run.Calls[i]
		if c.Op != trace.List || c.Outcome != trace.OK {
			continue
		}
		if len(c.Listed) == 0 {
			b.Totals.ListsUnseen++
			continue
		}
		f.waiting = append(f.waiting, c)
	}
	slices.SortStableFunc(f.waiting, func(a, b *trace.Call) int { return cmp.Compare(a.Revision, b.Revision) })
	return f
}

func (f *lists) step(c *change) {
	if listed(c.was) {
		f.live--
	}
	if listed(c.now) {
		f.live++
	}
}

// listed says whether a list of everything has the job: an array's elements are
// in a list of their own.
func listed(s *state) bool { return s != nil && !s.gone && (s.job == nil || s.job.ArrayOf == "") }

func (f *lists) settle(e *trace.Entry, until int64) {
	for len(f.waiting) > 0 && f.waiting[0].Revision < until {
		c := f.waiting[0]
		f.waiting = f.waiting[1:]
		if c.Revision < e.Batch.Revision {
			f.Totals.ListsUnseen++
			continue
		}
		f.Totals.ListsCompared++
		if job, text := f.compare(c); text != "" {
			f.wrong(ListsAreTrue, job, c.Start, "a list of %s at revision %d has %d jobs of %d: %s", c.Server, c.Revision, len(c.Listed), f.live, text)
		}
	}
	if e == &f.run.Store[len(f.run.Store)-1] {
		f.Totals.ListsUnseen += len(f.waiting)
	}
}

// compare names the first job that is listed otherwise than it is.
func (f *lists) compare(c *trace.Call) (job, text string) {
	f.round++
	for _, l := range c.Listed {
		s := f.jobs[l.Job]
		switch {
		case f.stamp[l.Job] == f.round:
			return l.Job, "it is there twice"
		case s == nil || s.gone:
			return l.Job, fmt.Sprintf("it is listed as %s and is not in the store", l.Phase)
		case !listed(s):
			return l.Job, "it is an array's element and does not belong there"
		case s.phase != l.Phase || s.revision != l.Revision:
			return l.Job, fmt.Sprintf("it is listed as %s of revision %d and is %s of revision %d", l.Phase, l.Revision, s.phase, s.revision)
		}
		f.stamp[l.Job] = f.round
	}
	if len(c.Listed) == f.live {
		return "", ""
	}
	for id, s := range f.jobs {
		if listed(s) && f.stamp[id] != f.round && (job == "" || id < job) {
			job, text = id, fmt.Sprintf("it is %s of revision %d and is missing", s.phase, s.revision)
		}
	}
	return job, text
}

// compareLists judges the revisions that lists carry.
func (j *judge) compareLists() {
	byServer := map[string][]*trace.Call{}
	for i := range j.run.Calls {
		c := &j.run.Calls[i]
		if c.Op != trace.List || c.Outcome != trace.OK {
			continue
		}
		if c.Revision < c.MinRevision {
			j.wrong(ListsAreTrue, "", c.Start, "a list of %s is of revision %d, and %d was the least asked for", c.Server, c.Revision, c.MinRevision)
		}
		byServer[c.Server] = append(byServer[c.Server], c)
	}
	for _, calls := range byServer {
		j.neverBack(calls)
	}
}

// neverBack wants no list older than one that had ended when it began. Calls
// are taken up as they begin and let in as they end.
func (j *judge) neverBack(calls []*trace.Call) {
	ended := slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b *trace.Call) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortStableFunc(ended, func(a, b *trace.Call) int { return cmp.Compare(a.End, b.End) })
	var newest *trace.Call
	for _, c := range calls {
		for len(ended) > 0 && ended[0].End < c.Start {
			if newest == nil || ended[0].Revision > newest.Revision || j.epochAt(ended[0].Start) > j.epochAt(newest.Start) {
				newest = ended[0]
			}
			ended = ended[1:]
		}
		if newest != nil && c.Revision < newest.Revision && j.epochAt(newest.Start) == j.epochAt(c.End) {
			j.wrong(ListsAreTrue, "", c.Start, "a list of %s is of revision %d, after one of revision %d that had ended %s before",
				c.Server, c.Revision, newest.Revision, seconds(c.Start-newest.End))
		}
	}
}
