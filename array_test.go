package ares_test

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func TestElementID(t *testing.T) {
	array := ares.NewJobID("t", "r")
	seen := map[ares.JobID]bool{array: true}
	for i := range 1000 {
		id := ares.ElementID(array, i)
		if seen[id] || !ares.ValidJobID(string(id)) {
			t.Fatalf("element %d is %s", i, id)
		}
		seen[id] = true
	}
	// Any program may derive an element's ID by itself, so the result must never change.
	if got, want := ares.ElementID("job-aaaaaaaaaaaaaaaaaaaaaaaa", 7), ares.JobID("job-dks3voajl6e32wkdx2bxsysa"); got != want {
		t.Errorf("element 7 is %s, want %s", got, want)
	}
}

func TestElement(t *testing.T) {
	array := &ares.Job{
		Spec: ares.Spec{Name: "sweep", RequestID: "r", GPUs: 2, Array: ares.Array{Count: 5, Parallelism: 2}, After: []string{"job-x"}}.WithDefaults(),
		ID:   ares.NewJobID("t", "r"), Owner: "me", AcceptedAt: t0, Revision: 9, RetryOf: "job-y", Digest: ares.Digest{1, 2},
	}
	e := array.Element(3)
	if e.Name != "sweep[3]" || e.ArrayOf != array.ID || e.ArrayIndex != 3 || e.ArrayCount != 5 || e.IsArray() || len(e.After) > 0 ||
		e.RequestID != "" || e.RetryOf != "" || e.Revision != 0 || e.GPUs != 2 || e.Owner != "me" || e.Digest != array.Digest || !e.AcceptedAt.Equal(t0) {
		t.Errorf("the element is %+v", e)
	}
	if !array.IsArray() || len(array.After) != 1 {
		t.Error("making an element changed its array")
	}
}

// TestAdvance applies several ArrayStep values to an array's run, and checks
// the run after each step.
func TestAdvance(t *testing.T) {
	l := live(t, ares.Spec{Array: ares.Array{Count: 5}})
	step := func(next int, p ares.Phase) error {
		return l.run.Advance(&ares.ArrayStep{Next: next, Phase: p, Reason: "because"}, l.now)
	}
	l.ok(step(0, ""))
	if l.run.Phase != ares.Pending {
		t.Fatalf("without elements it is %s", l.run.Phase)
	}
	l.ok(step(2, ""))
	l.ok(step(4, ""))
	if l.run.Phase != ares.Running || l.run.Next != 4 || len(l.run.Transitions) != 2 {
		t.Fatalf("with elements it is %+v", l.run)
	}
	l.unchanged(ares.Conflict, func() error { return step(3, "") })
	l.unchanged(ares.Conflict, func() error { return l.stop(ares.StopDrain) })
	l.ok(l.stop(ares.StopCancel))
	l.unchanged(ares.Conflict, func() error { return step(5, "") })
	l.ok(step(4, ares.Cancelled))
	if l.run.Phase != ares.Cancelled || l.run.Stop != nil || !l.run.FinishedAt.Equal(l.now) || l.run.Reason != "because" {
		t.Fatalf("at its end it is %+v", l.run)
	}
	l.unchanged(ares.Conflict, func() error { return step(4, ares.Failed) })
}

func TestArrayOutcome(t *testing.T) {
	stop := &ares.Stop{Why: ares.StopCancel, By: "ann"}
	for _, c := range []struct {
		name string
		e    ares.Elements
		run  ares.Run
		want ares.Phase
		says string
	}{
		{"nothing made", ares.Elements{Total: 3}, ares.Run{}, "", ""},
		{"some to come", ares.Elements{Total: 3, Made: 2, Succeeded: 2}, ares.Run{Next: 2}, "", ""},
		{"one runs", ares.Elements{Total: 3, Made: 3, Succeeded: 2, Running: 1}, ares.Run{Next: 3}, "", ""},
		{"one waits", ares.Elements{Total: 3, Made: 3, Succeeded: 2, Waiting: 1}, ares.Run{Next: 3}, "", ""},
		{"one is not seen yet", ares.Elements{Total: 3, Made: 2, Succeeded: 2}, ares.Run{Next: 3}, "", ""},
		{"all well", ares.Elements{Total: 3, Made: 3, Succeeded: 3}, ares.Run{Next: 3}, ares.Succeeded, "all 3"},
		{"one lost", ares.Elements{Total: 3, Made: 3, Succeeded: 1, Failed: 1, Lost: 1}, ares.Run{Next: 3}, ares.Failed, "2 of 3 elements did not succeed (1 succeeded, 1 failed, 1 lost)"},
		{"cancelled, one runs", ares.Elements{Total: 3, Made: 2, Succeeded: 1, Running: 1}, ares.Run{Next: 2, Stop: stop}, "", ""},
		{"cancelled", ares.Elements{Total: 3, Made: 2, Succeeded: 1, Cancelled: 1}, ares.Run{Next: 2, Stop: stop}, ares.Cancelled, "by ann (1 succeeded, 1 cancelled, 1 never started)"},
		{"cancelled too late", ares.Elements{Total: 3, Made: 3, Succeeded: 3}, ares.Run{Next: 3, Stop: stop}, ares.Cancelled, "by ann"},
	} {
		if p, why := c.e.Outcome(&c.run); p != c.want || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q, %q", c.name, p, why)
		}
	}
}

// TestElementsAtOnce checks that one step of the largest array fits into one transaction.
func TestElementsAtOnce(t *testing.T) {
	for members, want := range map[int]int{0: 39, 1: 39, 100: 20, ares.MaxMembers: 1} {
		s := ares.Spec{Members: members}
		if got := s.ElementsAtOnce(); got != want {
			t.Errorf("%d members: %d elements, want %d", members, got, want)
		}
	}
}

func TestMinMembersByDefault(t *testing.T) {
	for _, c := range []struct {
		spec    ares.Spec
		version int
		want    int
	}{
		{ares.Spec{}, 2, 1},
		{ares.Spec{Members: 4}, 2, 4},
		{ares.Spec{Members: 4, Gang: new(true)}, 2, 4},
		{ares.Spec{Members: 4, Gang: new(false)}, 2, 1},
		{ares.Spec{Members: 4, Gang: new(false)}, 1, 4},
		{ares.Spec{Members: 4, MinMembers: 3, Gang: new(false)}, 2, 3},
	} {
		if got := c.spec.WithDefaultsOf(c.version).MinMembers; got != c.want {
			t.Errorf("%+v under version %d: %d, want %d", c.spec, c.version, got, c.want)
		}
	}
}

func TestCutElement(t *testing.T) {
	for text, want := range map[string]string{
		"sweep[3]": "sweep 3", "a[b][12]": "a[b] 12", "@last[0]": "@last 0", "x[007]": "x 7",
		"sweep": "", "[3]": "", "sweep[]": "", "sweep[-1]": "", "sweep[+1]": "", "sweep[1": "", "sweep[x]": "", "sweep[1234567]": "", "sweep[3] ": "", "": "",
	} {
		got := ""
		if array, index, ok := ares.CutElement(text); ok {
			got = fmt.Sprint(array, " ", index)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
