package ares

import (
	"strings"
	"testing"
	"time"
)

func TestParseDependencies(t *testing.T) {
	for text, want := range map[string]string{
		"afterok:a":                  "afterok:a",
		"afterok:a:b,afterany:c":     "afterok:a afterok:b afterany:c",
		"singleton, afternotok:a":    "singleton afternotok:a",
		"after:a,aftercorr:b":        "after:a aftercorr:b",
		"afterwards:a":               `error "afterwards" is no type of dependency`,
		"afterok":                    `error "afterok" names no job`,
		"afterok:":                   `error "afterok:" names no job`,
		"afterok:a:":                 `error "afterok:a:" names no job`,
		"":                           `error "" is no type`,
		"singleton:a":                "error singleton names no job",
		"after:a+5":                  `error "after:a+5": a delay after a dependency`,
		"afterok:a?afterany:b":       `error "afterok:a?afterany:b": a delay`,
		strings.Repeat("x", 1000):    "error \"xxx",
		"afterok:a,\x1b[31mafter:b":  `error "\x1b[31mafter"`,
		"AFTEROK:a":                  `error "AFTEROK" is no type`,
		"job-aaaaaaaaaaaaaaaaaaaaaa": "error \"job-",
	} {
		list, err := ParseDependencies(text)
		got := ""
		for _, d := range list {
			got += " " + d.String()
		}
		if got = strings.TrimSpace(got); err != nil {
			got = "error " + err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
	}
}

func TestDependencyState(t *testing.T) {
	for typ, want := range map[DependencyType][4]DependencyState{
		// pending, running, succeeded, failed
		AfterOK:    {DependencyWaits, DependencyWaits, DependencyMet, DependencyNever},
		AfterAny:   {DependencyWaits, DependencyWaits, DependencyMet, DependencyMet},
		AfterNotOK: {DependencyWaits, DependencyWaits, DependencyNever, DependencyMet},
		AfterStart: {DependencyWaits, DependencyMet, DependencyMet, DependencyMet},
		AfterCorr:  {DependencyWaits, DependencyWaits, DependencyMet, DependencyNever},
	} {
		for i, p := range []Phase{Pending, Running, Succeeded, Failed} {
			if got := typ.State(p, p == Running); got != want[i] {
				t.Errorf("%s of a %s job is %d, not %d", typ, p, got, want[i])
			}
		}
	}
}

func TestStartConditionsCheck(t *testing.T) {
	id := string(NewJobID("default", "x"))
	for want, s := range map[string]Spec{
		"":                                  {Name: "n", Start: &StartConditions{Hold: true, Dependencies: []Dependency{{Singleton, ""}, {AfterOK, JobID(id)}}, Unmet: UnmetWait}},
		"singleton needs a name":            {Start: &StartConditions{Dependencies: []Dependency{{Type: Singleton}}}},
		`"x" is not a job ID`:               {Start: &StartConditions{Dependencies: []Dependency{{AfterOK, "x"}}}},
		"aftercorr is for arrays":           {Start: &StartConditions{Dependencies: []Dependency{{AfterCorr, JobID(id)}}}},
		`"soon" is no type of dependency`:   {Start: &StartConditions{Dependencies: []Dependency{{"soon", JobID(id)}}}},
		`"maybe" is unknown`:                {Start: &StartConditions{Unmet: "maybe"}},
		"the year must be between 1 and 99": {Start: &StartConditions{Begin: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"at most 64 dependencies":           {Start: &StartConditions{Dependencies: make([]Dependency, 65)}},
	} {
		s.Command = []string{"true"}
		err := s.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestSetHold(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	j := &Job{Spec: Spec{Start: &StartConditions{Hold: true}}}
	r := NewRun(now)
	step := func(held bool, changes bool, text string) {
		t.Helper()
		changed, err := r.SetHold(j, held, "ann", now)
		if changed != changes || (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("hold %v of a %s job: changed %v, %v", held, r.Phase, changed, err)
		}
	}
	if !r.IsHeld(j) || !(*Run)(nil).IsHeld(j) {
		t.Error("a job that is submitted held is not held")
	}
	step(true, false, "")
	step(false, true, "")
	step(false, false, "")
	step(true, true, "")
	if err := r.Place([]Seat{{Node: "a"}}, 0, now); CodeOf(err) != Conflict {
		t.Errorf("a held job is placed: %v", err)
	}
	if again := r.Clone(); again.Hold == r.Hold || *again.Hold != *r.Hold {
		t.Error("a clone shares the hold")
	}
	step(false, true, "")
	r.Cluster = "east"
	step(true, false, "cluster east owns job")
	r.Cluster = ""
	if err := r.Place([]Seat{{Node: "a"}}, 0, now); err != nil {
		t.Fatal(err)
	}
	step(true, false, "only a waiting job can be held")
	r.Phase = Succeeded
	step(true, false, "already succeeded")
	step(false, false, "")
}
