package check_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

const contradicts = "contradicts what was answered before"

// This function removes the store's revisions from a record. Then only the
// check of the order of calls can find an error.
func bare(r *trace.Run) {
	r.Store, r.Witnesses, r.Meta.Healed = r.Store[:1], nil, 0
}

func TestLinearizable(t *testing.T) {
	t.Parallel()
	cases := []planted{
		{"a get goes back", check.Linearizable, contradicts, func(r *trace.Run) {
			gets := calls(r, trace.Get, "plain")
			gets[3].Revision, gets[3].Phase = gets[2].Revision-1, ares.Scheduled
		}},
		{"one revision, two answers", check.Linearizable, contradicts, func(r *trace.Run) {
			gets := calls(r, trace.Get, "plain")
			gets[3].Revision = gets[2].Revision
		}},
		{"fewer attempts than before", check.Linearizable, contradicts, func(r *trace.Run) {
			calls(r, trace.Get, "plain")[2].Attempt = 2
		}},
		{"two ends", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Get, "plain")[3].Phase = ares.Failed }},
		{"archived and running", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Get, "plain")[4].Phase = ares.Running }},
		{"back from the archive", check.Linearizable, contradicts, func(r *trace.Run) {
			gets := calls(r, trace.Get, "plain")
			gets[3].Revision, gets[3].Attempt, gets[4].Revision, gets[4].Attempt = 0, 0, 999, 1
		}},
		{"found before it was there", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Get, "plain")[0]
			c.Outcome, c.Code, c.Phase, c.Revision = trace.OK, "", ares.Pending, 101
		}},
		{"not found though it was there", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Get, "plain")[2]
			*c = trace.Call{Op: trace.Get, Job: "plain", Start: c.Start, End: c.End, Outcome: trace.Refused, Code: string(ares.NotFound)}
		}},
		{"accepted as new twice", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Submit, "plain")[1].Duplicate = false }},
		{"a duplicate of nothing", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Submit, "plain")[0].Duplicate = true }},
		{"a duplicate of another body", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Submit, "plain")[1].Body = "y" }},
		{"a conflict with itself", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Submit, "plain")[2].Body = "x" }},
		{"a refusal that did it all the same", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Submit, "gang")[0]
			c.Outcome, c.Code = trace.Refused, string(ares.Exhausted)
			r.Calls = append(r.Calls, trace.Call{Op: trace.Get, Job: "gang", Outcome: trace.OK, Phase: ares.Pending, Revision: 110, Start: c.End + 1, End: c.End + 2})
		}},
		{"running on after a cancel", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Get, "stopped")[0].Stop = "" }},
		{"waiting again after a cancel", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Get, "stopped")[0].Phase = ares.Pending }},
		{"succeeded after a cancel", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Get, "stopped")[1].Phase = ares.Succeeded }},
		{"a cancel refused after a cancel", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Cancel, "stopped")[1]
			c.Outcome, c.Code = trace.Refused, string(ares.Conflict)
		}},
		{"a cancel under way after the end", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Cancel, "stopped")[1].Phase = "cancelling" }},
		{"a cancel of what succeeded", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Cancel, "plain")[0]
			c.Outcome, c.Code, c.Phase = trace.OK, "", ares.Cancelled
		}},
		{"a cancel refused as too late, and it runs", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Cancel, "stopped")[0]
			c.Outcome, c.Code = trace.Refused, string(ares.Conflict)
		}},
		{"a cancel answered with no known word", check.Linearizable, contradicts, func(r *trace.Run) { calls(r, trace.Cancel, "stopped")[0].Phase = "maybe" }},
		{"a cancel too late for nothing", check.Linearizable, contradicts, func(r *trace.Run) {
			r.Calls = append(r.Calls, trace.Call{Op: trace.Cancel, Job: "nobody", Outcome: trace.Refused, Code: string(ares.Conflict), Start: 1, End: 2})
		}},
		{"a cancel too late while a cancel is under way", check.Linearizable, contradicts, func(r *trace.Run) {
			c := calls(r, trace.Get, "stopped")[0]
			c.Op, c.Outcome, c.Code = trace.Cancel, trace.Refused, string(ares.Conflict)
			r.Calls = slices.DeleteFunc(r.Calls, func(o trace.Call) bool { return o.Job == "stopped" && o.Start > c.Start })
		}},
		{"a cancel of nothing", check.Linearizable, contradicts, func(r *trace.Run) {
			r.Calls = append(r.Calls, trace.Call{Op: trace.Cancel, Job: "nobody", Outcome: trace.OK, Phase: "cancelling", Start: 1, End: 2})
		}},
	}
	for i := range cases {
		tamper := cases[i].plant
		cases[i].plant = func(r *trace.Run) { tamper(r); bare(r) }
	}
	plant(t, cases)
}

// TestUnknownOutcomes checks calls with an unknown outcome. Such a call may
// have taken effect at any time after its start, or never. The call must not
// have taken effect before its start.
func TestUnknownOutcomes(t *testing.T) {
	t.Parallel()
	submit := func(at int, body string) trace.Call {
		return timed(at, trace.Call{Op: trace.Submit, Body: body, Outcome: trace.Unknown})
	}
	accepted := func(at int, body string) trace.Call {
		return timed(at, trace.Call{Op: trace.Submit, Body: body, Outcome: trace.OK})
	}
	get := func(at int, phase ares.Phase, revision int64, stop string) trace.Call {
		return timed(at, trace.Call{Op: trace.Get, Outcome: trace.OK, Phase: phase, Revision: revision, Stop: stop})
	}
	missing := func(at int) trace.Call {
		return timed(at, trace.Call{Op: trace.Get, Outcome: trace.Refused, Code: string(ares.NotFound)})
	}
	duplicate := func(at int, body string) trace.Call {
		return timed(at, trace.Call{Op: trace.Submit, Body: body, Outcome: trace.OK, Duplicate: true})
	}
	conflict := func(at int, body string) trace.Call {
		return timed(at, trace.Call{Op: trace.Submit, Body: body, Outcome: trace.Refused, Code: string(ares.Conflict)})
	}
	cancel := func(at int) trace.Call { return timed(at, trace.Call{Op: trace.Cancel, Outcome: trace.Unknown}) }
	for _, c := range []struct {
		name  string
		calls []trace.Call
		legal bool
	}{
		{"never", []trace.Call{submit(1, "x"), missing(2), missing(9)}, true},
		{"at once", []trace.Call{submit(1, "x"), get(2, ares.Pending, 5, "")}, true},
		{"later", []trace.Call{submit(1, "x"), missing(2), duplicate(3, "x")}, true},
		{"not before", []trace.Call{get(1, ares.Pending, 5, ""), submit(2, "x")}, false},
		{"not undone", []trace.Call{submit(1, "x"), get(2, ares.Pending, 5, ""), missing(3)}, false},
		{"one of two bodies", []trace.Call{submit(1, "x"), submit(1, "y"), duplicate(2, "y"), conflict(3, "x")}, true},
		{"not both bodies", []trace.Call{submit(1, "x"), submit(1, "y"), duplicate(2, "y"), duplicate(3, "x")}, false},
		{"the second of two alike cannot have been before", []trace.Call{duplicate(1, "x"), submit(2, "x"), submit(3, "x")}, false},
		{"then not new", []trace.Call{submit(1, "x"), get(2, ares.Pending, 5, ""), accepted(3, "x")}, false},
		{"not yet, so new", []trace.Call{submit(1, "x"), missing(2), accepted(3, "x")}, true},
		{"a cancel done", []trace.Call{accepted(1, "x"), cancel(2), get(3, ares.Running, 6, "cancel"), get(4, ares.Cancelled, 7, "")}, true},
		{"a cancel not done", []trace.Call{accepted(1, "x"), cancel(2), get(3, ares.Succeeded, 6, "")}, true},
		{"a cancel done and undone", []trace.Call{accepted(1, "x"), cancel(2), get(3, ares.Running, 6, "cancel"), get(4, ares.Running, 7, "")}, false},
		{"a cancel done and then success", []trace.Call{accepted(1, "x"), cancel(2), get(3, ares.Running, 6, "cancel"), get(4, ares.Succeeded, 7, "")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &trace.Run{Calls: c.calls}
			r.Store = []trace.Entry{{Batch: ares.Batch{Revision: 1, Reset: true}}}
			got := check.Run(r)
			if (len(got.Violations) == 0) != c.legal {
				t.Errorf("legal should be %t; got %v", c.legal, got.Violations)
			}
		})
	}
}

// This function sets the start and the end of a call about job j.
func timed(at int, c trace.Call) trace.Call {
	c.Job, c.Start = "j", ms(10*at)
	c.End = c.Start + ms(5)
	return c
}

// TestManyUnknown checks the calls of a client that repeats a call a hundred
// times without an answer. The linearizability check must still come
// to a decision.
func TestManyUnknown(t *testing.T) {
	t.Parallel()
	r := &trace.Run{Store: []trace.Entry{{Batch: ares.Batch{Revision: 1, Reset: true}}}}
	for i := range 100 {
		r.Calls = append(r.Calls, timed(i, trace.Call{Op: trace.Submit, Body: "x", Outcome: trace.Unknown}),
			timed(i, trace.Call{Op: trace.Cancel, Outcome: trace.Unknown}))
	}
	r.Calls = append(r.Calls, timed(101, trace.Call{Op: trace.Get, Outcome: trace.OK, Phase: ares.Running, Revision: 9, Stop: "cancel", Attempt: 1}),
		timed(102, trace.Call{Op: trace.Get, Outcome: trace.OK, Phase: ares.Running, Revision: 9, Stop: "", Attempt: 1}))
	got := check.Run(r)
	if got.Totals.Undecided != 0 || len(got.Violations) != 1 || !strings.Contains(got.Violations[0].Text, contradicts) {
		t.Errorf("got %v, %d undecided", got.Violations, got.Totals.Undecided)
	}
}

// TestManyAtOnce checks get calls that wait at the same time at a hanging
// server. The check must order these calls by revision. It must report a call
// that returns an older state than an earlier answer.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := &trace.Run{Store: []trace.Entry{{Batch: ares.Batch{Revision: 1, Reset: true}}}}
	r.Calls = append(r.Calls, timed(0, trace.Call{Op: trace.Submit, Body: "x", Outcome: trace.OK}))
	for i := range 60 {
		r.Calls = append(r.Calls, timed(1, trace.Call{Op: trace.Get, Outcome: trace.OK, Phase: ares.Running, Revision: int64(100 - i)}))
	}
	r.Calls = append(r.Calls, timed(2, trace.Call{Op: trace.Get, Outcome: trace.OK, Phase: ares.Succeeded}))
	if got := check.Run(r); len(got.Violations) != 1 || got.Violations[0].At != ms(20) { // the store never had it, which another part of the oracle reports
		t.Errorf("got %v", got.Violations)
	}
	r.Calls[len(r.Calls)-1] = timed(2, trace.Call{Op: trace.Get, Outcome: trace.OK, Phase: ares.Running, Revision: 99})
	got := check.Run(r)
	if got.Totals.Undecided != 0 || len(got.Violations) != 1 || !strings.Contains(got.Violations[0].Text, "revision 99) "+contradicts) {
		t.Errorf("got %v", got.Violations)
	}
}

// TestUndecided checks that a job is reported if its linearizability search
// exceeds the time limit.
func TestUndecided(t *testing.T) {
	t.Parallel()
	r := &trace.Run{Store: []trace.Entry{{Batch: ares.Batch{Revision: 1, Reset: true}}}}
	r.Calls = append(r.Calls, timed(0, trace.Call{Op: trace.Submit, Body: "x", Outcome: trace.OK}))
	for range 40 { // all at once, so that any of them may have been the first
		r.Calls = append(r.Calls, timed(1, trace.Call{Op: trace.Submit, Body: "x", Duplicate: true, Outcome: trace.OK}))
	}
	r.Calls = append(r.Calls, timed(2, trace.Call{Op: trace.Get, Outcome: trace.Refused, Code: string(ares.NotFound)}))
	got := check.RunWithin(r, 5*time.Millisecond)
	if got.Totals.Undecided != 1 || len(got.Violations) != 1 || !strings.Contains(got.Violations[0].Text, "was not decided within 5ms") {
		t.Errorf("got %v, %d undecided", got.Violations, got.Totals.Undecided)
	}
}

func TestAnswersAgainstTheStore(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"a phase the store never held", check.Linearizable, "the store held running", func(r *trace.Run) { calls(r, trace.Get, "plain")[2].Phase = ares.Scheduled }},
		{"an attempt the store never held", check.Linearizable, "the store held running, 1", func(r *trace.Run) { calls(r, trace.Get, "plain")[2].Attempt = 0 }},
		{"a stop the store never held", check.Linearizable, "stop \"drain\"", func(r *trace.Run) { calls(r, trace.Get, "plain")[2].Stop = "drain" }},
		{"a revision the store never had", check.Linearizable, "at which the store did not change it", func(r *trace.Run) { calls(r, trace.Get, "plain")[2].Revision++ }},
		{"a stale answer nobody contradicts", check.Linearizable, "the store had it pending", func(r *trace.Run) {
			c, old := calls(r, trace.Get, "lost")[0], runs(r, "lost")[1]
			c.Phase, c.Revision, c.Attempt = old.Phase, old.Revision, old.Placed
		}},
		{"not found though stored", check.Linearizable, "found no job; the store had it", func(r *trace.Run) {
			c := calls(r, trace.Get, "lost")[0]
			*c = trace.Call{Op: trace.Get, Job: "lost", Start: c.Start, End: c.End, Outcome: trace.Refused, Code: string(ares.NotFound)}
		}},
		{"new though stored", check.Linearizable, "made a new job; the store had it", func(r *trace.Run) {
			c := calls(r, trace.Get, "lost")[0]
			*c = trace.Call{Op: trace.Submit, Job: "lost", Body: "x", Start: c.Start, End: c.End, Outcome: trace.OK}
		}},
		{"alive though archived", check.Linearizable, "it was archived before", func(r *trace.Run) {
			c, end := calls(r, trace.Get, "plain")[4], runs(r, "plain")[3]
			c.Revision, c.Attempt = end.Revision, 1
		}},
		{"archived with an end it never had", check.Linearizable, "found it archived as \"lost\"", func(r *trace.Run) { calls(r, trace.Get, "plain")[4].Phase = ares.Lost }},
		{"a cancel that never reached the store", check.Linearizable, "the store has it succeeded in the end", func(r *trace.Run) {
			c := calls(r, trace.Get, "lost")[0]
			*c = trace.Call{Op: trace.Cancel, Job: "lost", Start: c.Start, End: c.End, Outcome: trace.OK, Phase: "cancelling"}
		}},
	})
}
