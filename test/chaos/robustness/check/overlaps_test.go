package check_test

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

func TestNoOverlap(t *testing.T) {
	t.Parallel()
	plant(t, []planted{
		{"an old attempt that lives", check.NoOverlap, "wrote 1 lines", func(r *trace.Run) { revive(r, "beat", 0) }},
		{"another attempt found", check.NoOverlap, "found another attempt alive: attempt:1,rank:0", func(r *trace.Run) {
			w := r.Witnesses["lost"][2]
			w.Verb, w.Detail = trace.Overlap, "attempt:1,rank:0"
			r.Witnesses["lost"] = append(r.Witnesses["lost"], w)
		}},
		{"another process of the same rank found", check.NoOverlap, "of the same rank alive", func(r *trace.Run) {
			r.Witnesses["plain"][1].Verb = trace.Twice
		}},
		{"started twice", check.NoOverlap, "was started 2 times", func(r *trace.Run) {
			r.Witnesses["plain"][1].Verb = trace.Started
		}},
		{"a fence that changes", check.NoOverlap, "had fence", func(r *trace.Run) {
			runs(r, "plain")[1].Attempts[0].Fence--
		}},
		{"a fence that is not the revision", check.NoOverlap, "placed attempt 1 with fence", func(r *trace.Run) {
			for _, run := range runs(r, "plain") {
				run.Attempts[0].Fence--
			}
		}},
		{"a fence that does not grow", check.NoOverlap, "not above", func(r *trace.Run) {
			for _, run := range runs(r, "lost")[3:] {
				run.Attempts[1].Fence = run.Attempts[0].Fence
			}
		}},
		{"fences out of order in one record", check.NoOverlap, "after attempt 1 with", func(r *trace.Run) {
			for _, run := range runs(r, "lost")[3:] {
				run.Attempts[1].Fence = run.Attempts[0].Fence - 1
			}
		}},
		{"an attempt left out", check.NoOverlap, "placed attempt 3", func(r *trace.Run) {
			for _, run := range runs(r, "lost")[3:] {
				run.Attempts[1].Number, run.Placed = 3, 3
			}
		}},
		{"placed before the last one was settled", check.NoOverlap, "neither released nor voided", func(r *trace.Run) {
			runs(r, "lost")[2].Attempts[0].Seats[0].State = ares.SeatClaimed
		}},
		{"a process of no attempt", check.NoOverlap, "which the store never gave", func(r *trace.Run) {
			for i := range r.Witnesses["plain"] {
				r.Witnesses["plain"][i].Fence++
			}
		}},
		{"a process on another node", check.NoOverlap, "ran on n3; its seat is on \"n1\"", func(r *trace.Run) {
			for i := range r.Witnesses["plain"] {
				r.Witnesses["plain"][i].Node = "n3"
			}
		}},
		{"processes whose fences fall", check.NoOverlap, "fences must grow", func(r *trace.Run) {
			for i := range r.Witnesses["lost"] {
				if w := &r.Witnesses["lost"][i]; w.Attempt == 2 {
					w.Fence = 101
				}
			}
		}},
		{"processes that share a fence", check.NoOverlap, "have the same fence", func(r *trace.Run) {
			for i := range r.Witnesses["lost"] {
				r.Witnesses["lost"][i].Fence = r.Witnesses["lost"][0].Fence
			}
		}},
		{"an oversold device found", check.NotOversold, "found a device taken", func(r *trace.Run) {
			r.Witnesses["plain"][1].Verb = trace.Oversold
		}},
	})
}

// The function `revive` makes the first attempt of the lost job write one more
// line. The line comes some time after the second attempt has started.
func revive(r *trace.Run, verb trace.Verb, after time.Duration) time.Duration {
	lines := r.Witnesses["lost"]
	w, second := lines[0], lines[2]
	w.Verb, w.At = verb, second.At+1+after
	r.Witnesses["lost"] = append(lines, w)
	return second.At
}

// TestExcuses checks that only one kind of fault excuses an overlap. The fault
// must be on the older process's node and must last for the whole overlap.
func TestExcuses(t *testing.T) {
	t.Parallel()
	const while = time.Second
	overlap := trace.Witness{Verb: trace.Overlap, Detail: "attempt:1,rank:0"}
	for _, c := range []struct {
		name    string
		fault   trace.Fault // At and Until are relative to the start of the overlap
		late    time.Duration
		found   bool // detected by a lock and not by the times
		excused bool
	}{
		{"the older node was stopped", trace.Fault{Target: "n3", At: -while, Until: while, Excuses: true}, 0, false, true},
		{"found by a lock", trace.Fault{Target: "n3", At: -while, Until: while, Excuses: true}, 0, true, true},
		{"shortly after", trace.Fault{Target: "n3", At: -while, Until: -1, Excuses: true}, check.Margin - 10, false, true},
		{"too long after", trace.Fault{Target: "n3", At: -while, Until: -1, Excuses: true}, check.Margin + 1, false, false},
		{"a fault of a moment", trace.Fault{Target: "n3", At: -while, Excuses: true}, 0, false, true},
		{"the newer node", trace.Fault{Target: "n2", At: -while, Until: while, Excuses: true}, 0, false, false},
		{"the newer node, found by a lock", trace.Fault{Target: "n2", At: -while, Until: while, Excuses: true}, 0, true, false},
		{"a fault that began later", trace.Fault{Target: "n3", At: 1, Until: while, Excuses: true}, 0, false, false},
		{"a fault that excuses nothing", trace.Fault{Target: "n3", At: -while, Until: while}, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := copied(t, good(t).finish())
			begin := r.Witnesses["lost"][2].At
			if c.found {
				w := r.Witnesses["lost"][2]
				w.Verb, w.Detail = overlap.Verb, overlap.Detail
				r.Witnesses["lost"] = append(r.Witnesses["lost"], w)
			} else {
				begin = revive(r, trace.Beat, c.late)
			}
			f := c.fault
			f.Kind, f.At = "node-stop", f.At+begin
			if f.Until != 0 {
				f.Until += begin
			}
			r.Faults = append(r.Faults, f)
			got := check.Run(copied(t, r))
			violations, excused := len(got.Violations), len(got.Excused)
			if want := 1; c.excused && (violations != 0 || excused != want) || !c.excused && (violations != want || excused != 0) {
				t.Errorf("excused should be %t; violations %v, excused %v", c.excused, got.Violations, got.Excused)
			}
			if c.excused && excused == 1 && !strings.Contains(got.Excused[0].Text, "excused by node-stop of "+c.fault.Target) {
				t.Errorf("it does not say by what: %v", got.Excused)
			}
		})
	}
}
