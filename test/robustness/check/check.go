// Package check judges a run of the robustness suite from its record alone.
// Each oracle has a file of its own, with its reason at the top. Nothing here
// asks the system under test: what it promised must be visible in what clients
// were answered, what the store went through and what the jobs themselves
// wrote.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// Oracle names a promise.
type Oracle string

// The oracles.
const (
	OneCommit    Oracle = "O1"     // one result becomes final, once
	NoOverlap    Oracle = "O2"     // no two attempts of a job live together
	NothingLost  Oracle = "O3"     // what was accepted ends
	NotOversold  Oracle = "O4"     // no device is given twice
	Linearizable Oracle = "O5"     // answers about a job are as if given one after the other
	ListsAreTrue Oracle = "O5b"    // a list is the store at its revision
	WithinQuota  Oracle = "O6"     // no tenant holds more than it may
	CleanRecord  Oracle = "record" // the record can be judged at all
)

// Violation is one broken promise, or one that an excusing fault covers.
type Violation struct {
	Oracle Oracle
	Job    string // "" when it is about none
	At     time.Duration
	Text   string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s at %s: %s", v.Oracle, cmp.Or(v.Job, "-"), seconds(v.At), v.Text)
}

// Report is the judgement of a run.
type Report struct {
	Totals     Totals
	Violations []Violation
	Excused    []Violation // overlaps within the stated limit

	start time.Duration
}

// Run judges a record.
func Run(r *trace.Run) Report { return runWithin(r, decideWithin) }

func runWithin(r *trace.Run, within time.Duration) Report {
	j := &judge{run: r, within: within, Report: Report{start: r.Meta.Start}}
	j.Totals = count(r)
	j.record()
	book := j.replay()
	j.overlaps(book)
	j.processesOf(book)
	j.ends(book)
	j.compareAnswers(book)
	j.linearize(book)
	j.compareLists()
	j.totalsOf(book)
	byTime := func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Oracle, b.Oracle), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Text, b.Text))
	}
	slices.SortFunc(j.Violations, byTime)
	slices.SortFunc(j.Excused, byTime)
	return j.Report
}

// judge collects what is found.
type judge struct {
	Report
	run    *trace.Run
	within time.Duration // for the search of one job's order
}

func (j *judge) wrong(o Oracle, job string, at time.Duration, format string, args ...any) {
	j.Violations = append(j.Violations, Violation{o, job, at, fmt.Sprintf(format, args...)})
}

// epochAt counts the restores up to a moment: an epoch is the time between two.
func (j *judge) epochAt(at time.Duration) int {
	n := 0
	for _, r := range j.run.Meta.Restores {
		if r.At <= at {
			n++
		}
	}
	return n
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
