package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O5b checks the job lists that servers return. A list comes from a
// server's own copy of the store. It may therefore be outdated, but it must
// never be wrong. A list must contain exactly the jobs that were live at its
// revision. Its revision must not be lower than the revision that the caller
// asked for. Two list calls go to the same server, and the second begins after
// the first has ended. The second answer must then not be older than the first.
// The rule also holds if the server restarts in between. A restarted server
// first reads the store up to the revision that is current at its start. Lists
// of different servers have no guaranteed order.

// This type checks the contents of job lists while the store's revisions are
// replayed.
type lists struct {
	*book
	waiting []*trace.Call // by revision
	stamp   map[string]int
	round   int
	live    int // jobs that are not archived, without array elements
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

// This function reports whether the list of all jobs contains the job. Array
// elements are in separate lists.
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

// This method returns the first job whose entry in the list is wrong.
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

// compareLists checks the revisions in the lists.
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

// neverBack checks the order of lists. If a list call ended before another list
// call began, the second list must not be older than the first. neverBack
// processes calls in the order in which they begin. It considers the revision
// of a call once that call has ended.
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
