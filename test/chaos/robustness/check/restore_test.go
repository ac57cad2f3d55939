package check_test

import (
	"maps"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// A `backup` is a copy of the store that can be restored.
type backup struct {
	rev  int64
	jobs map[string]*ares.Job
	runs map[string]*ares.Run
	gone map[string]bool
	all  []string
}

func (m *made) backup() backup {
	b := backup{rev: m.rev, jobs: maps.Clone(m.jobs), runs: map[string]*ares.Run{}, gone: maps.Clone(m.gone), all: slices.Clone(m.order)}
	for id, r := range m.runs {
		b.runs[id] = new(r.Clone())
	}
	return b
}

const bump = 1000

func (m *made) restore(b backup) {
	m.r.Meta.Restores = append(m.r.Meta.Restores, trace.Restore{At: m.tick(), Backup: b.rev, Highest: m.rev})
	m.jobs, m.runs, m.gone, m.order = b.jobs, b.runs, b.gone, b.all
	m.rev += bump
	m.snapshot()
}

// afterRestore returns a run whose store was restored from a backup. After the
// backup, one job ended and another job was submitted. The restore lost both
// changes. After the restore, one of these jobs ends again, and the other job
// is submitted again.
func afterRestore(t *testing.T) *made {
	t.Helper()
	m := good(t)
	m.submit("twice", 1)
	m.place("twice", "n1/0")
	m.start("twice")
	b := m.backup()
	m.end("twice", ares.OutcomeSucceeded)
	m.get("twice")
	m.submit("young", 1)
	m.place("young", "n1/1")
	m.start("young")
	m.cancel("young")
	m.submit("forgotten", 1)
	m.list()
	m.restore(b)
	m.list()
	m.notFound(trace.Get, "young")
	m.submit("young", 1)
	m.place("young", "n2/1")
	m.start("young")
	m.get("young")
	m.end("young", ares.OutcomeSucceeded)
	m.get("young")
	m.get("twice")
	m.move("twice", func(r *ares.Run) error { return r.Void(m.jobs["twice"], r.Fence(), 0, m.wall()) })
	m.place("twice", "n2/0")
	m.start("twice")
	m.end("twice", ares.OutcomeFailed)
	m.move("twice", func(r *ares.Run) error { return r.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me"}) })
	m.get("twice")
	return m
}

func TestRestore(t *testing.T) {
	t.Parallel()
	got := check.Run(copied(t, afterRestore(t).finish()))
	if len(got.Violations) != 0 {
		t.Errorf("got %v", got.Violations)
	}
	if n := got.Totals; n.Forgotten != 1 || n.Gaps != 0 || n.ListsCompared != 4 || n.GetsUnseen != 0 {
		t.Errorf("miscounted: %+v", n)
	}
}

func TestRestoreBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []planted{
		{"an end that the backup had", check.OneCommit, "after a restore of revision", func(r *trace.Run) {
			snapshotRun(r, "gang").Phase = ares.Running
		}},
		{"a job that the backup had", check.NothingLost, "is not there after a restore", func(r *trace.Run) {
			e := lastSnapshot(r)
			e.Batch.Events = slices.DeleteFunc(e.Batch.Events, func(ev ares.Event) bool {
				return ev.Job != nil && ev.Job.ID == "stopped" || ev.Run != nil && ev.Run.Job == "stopped"
			})
		}},
		{"a job submitted again", check.NothingLost, "accepted and is not in the store", func(r *trace.Run) {
			r.Calls = append(r.Calls, trace.Call{Op: trace.Submit, Outcome: trace.OK, Job: "forgotten", Body: "x", Start: r.Meta.End, End: r.Meta.End})
		}},
		{"a fence used again", check.NoOverlap, "after a restore: the store had reached", func(r *trace.Run) {
			r.Meta.Restores[0].Highest += bump + 500
		}},
		{"a fence from after the backup", check.NoOverlap, "carries fence", func(r *trace.Run) {
			snapshotRun(r, "twice").Attempts[0].Fence = ares.Fence(r.Meta.Restores[0].Highest)
		}},
		{"revisions used again", check.CleanRecord, "fences will be used again", func(r *trace.Run) {
			r.Meta.Restores[0].Highest += bump + 500
		}},
		{"an attempt that lives on", check.NoOverlap, "wrote 1 lines", func(r *trace.Run) {
			lines := r.Witnesses["young"]
			old := lines[0]
			old.Verb, old.At = trace.Beat, lines[len(lines)-1].At
			r.Witnesses["young"] = append(lines, old)
		}},
		{"accepted twice after it", check.Linearizable, contradicts, func(r *trace.Run) {
			c := *calls(r, trace.Submit, "young")[1]
			c.Start, c.End = r.Meta.End, r.Meta.End+1
			r.Calls = append(r.Calls, c)
		}},
		{"found though forgotten", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Get, "young")[0]
			c.Outcome, c.Code, c.Phase, c.Revision = trace.OK, "", ares.Pending, 2000
		}},
		{"an end in the backup, and another answer", check.Linearizable, contradicts, func(r *trace.Run) {
			r.Calls = append(r.Calls, trace.Call{Op: trace.Get, Outcome: trace.OK, Job: "gang", Phase: ares.Failed, Revision: 5000, Attempt: 1, Start: r.Meta.End, End: r.Meta.End})
		}},
		{"a cancel that never reached the store", check.Linearizable, "the store has it succeeded in the end", func(r *trace.Run) {
			at := r.Store[len(r.Store)-1].At
			r.Calls = append(r.Calls, trace.Call{Op: trace.Cancel, Outcome: trace.OK, Job: "young", Phase: "cancelling", Start: at, End: at})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := copied(t, afterRestore(t).finish())
			c.plant(r)
			found(t, r, c.oracle, c.words)
		})
	}
}

func lastSnapshot(r *trace.Run) *trace.Entry {
	for i := len(r.Store) - 1; ; i-- {
		if r.Store[i].Batch.Reset {
			return &r.Store[i]
		}
	}
}

func snapshotRun(r *trace.Run, id string) *ares.Run {
	for _, ev := range lastSnapshot(r).Batch.Events {
		if ev.Run != nil && string(ev.Run.Job) == id {
			return &ev.Run.Run
		}
	}
	return nil
}

// TestRestoreTwice makes two restores, and the first restore loses a job. This
// job may still be missing after the second restore, although the second backup
// has a far higher revision.
func TestRestoreTwice(t *testing.T) {
	t.Parallel()
	m := good(t)
	first := m.backup()
	m.submit("young", 1)
	m.get("young")
	m.restore(first)
	second := m.backup()
	m.restore(second)
	m.notFound(trace.Get, "young")
	m.submit("young", 1)
	m.place("young", "n2/1")
	m.start("young")
	m.end("young", ares.OutcomeSucceeded)
	if got := check.Run(copied(t, m.finish())); len(got.Violations) != 0 {
		t.Errorf("got %v", got.Violations)
	}
}

// TestCallsAcrossRestore checks calls that overlap a restore. Such a call may
// have been answered from either state of the store.
func TestCallsAcrossRestore(t *testing.T) {
	t.Parallel()
	for _, across := range []trace.Call{
		{Op: trace.Submit, Job: "young", Body: "x", Duplicate: true},
		{Op: trace.Get, Job: "young", Phase: ares.Running, Revision: 7},
		{Op: trace.Cancel, Job: "twice", Phase: "cancelling"},
		{Op: trace.List, Revision: 7},
	} {
		r := copied(t, afterRestore(t).finish())
		across.Start, across.End, across.Outcome = r.Meta.Restores[0].At-1, r.Meta.Restores[0].At+1, trace.OK
		r.Calls = append(r.Calls, across)
		if got := check.Run(r); len(got.Violations) != 0 {
			t.Errorf("%s: got %v", across.Op, got.Violations)
		}
	}
}

// TestHistoryOutlastsARestore checks an answer from history about a job that is
// missing in a restored store. Such an answer may report how the job ended.
// History may report nothing else about such a job.
func TestHistoryOutlastsARestore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*trace.Call)
		holds  bool
	}{
		"as it ended":       {func(*trace.Call) {}, true},
		"before its end":    {func(c *trace.Call) { c.Phase = ares.Running }, false},
		"with another end":  {func(c *trace.Call) { c.Phase = ares.Failed }, false},
		"after another try": {func(c *trace.Call) { c.Attempt++ }, false},
	} {
		m := good(t)
		b := m.backup()
		m.submit("young", 1)
		m.place("young", "n2/1")
		m.start("young")
		m.end("young", ares.OutcomeSucceeded)
		told := *m.get("young")
		m.restore(b)
		c.change(&told)
		m.call(trace.Call{Op: trace.Get, Job: "young"}, func(now *trace.Call) {
			now.Phase, now.Attempt, now.Revision = told.Phase, told.Attempt, told.Revision
		})
		m.notFound(trace.Cancel, "young")
		m.submit("young", 1)
		m.place("young", "n2/1")
		m.start("young")
		m.end("young", ares.OutcomeSucceeded)
		if got := check.Run(copied(t, m.finish())); (len(got.Violations) == 0) != c.holds {
			t.Errorf("%s: got %v", name, got.Violations)
		}
	}
}
