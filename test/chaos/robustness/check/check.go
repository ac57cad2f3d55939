// Package check decides from the record of a robustness run whether Ares kept
// its guarantees. Each oracle has its own file, which begins with its reasoning.
// The checks do not query the system under test. A broken guarantee must be
// visible in one of three places: the answers that clients got, the changes of
// the store, or the lines that the jobs themselves wrote.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle is the name of a guarantee that is checked.
type Oracle string

// Each oracle checks the guarantee in its comment.
const (
	OneCommit    Oracle = "O1"     // exactly one result becomes final
	NoOverlap    Oracle = "O2"     // no two attempts of a job run at the same time
	NothingLost  Oracle = "O3"     // every accepted job ends
	NotOversold  Oracle = "O4"     // no device is allocated twice
	Linearizable Oracle = "O5"     // the answers about a job fit some sequential order of the calls
	ListsAreTrue Oracle = "O5b"    // a list equals the store at its revision
	WithinQuota  Oracle = "O6"     // no tenant uses more than its limit
	CleanRecord  Oracle = "record" // the record is complete enough to be judged
)

// Violation is one broken guarantee. A fault may excuse the violation.
type Violation struct {
	Oracle Oracle
	Job    string // "" if it concerns no single job
	At     time.Duration
	Text   string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s at %s: %s", v.Oracle, cmp.Or(v.Job, "-"), seconds(v.At), v.Text)
}

// Report is the result of checking one run.
type Report struct {
	Totals     Totals
	Violations []Violation
	Excused    []Violation // overlaps within the documented limit

	start time.Duration
}

// Run checks a record and reports the violations.
func Run(r *trace.Run) Report { return runWithin(r, decideWithin) }

func runWithin(r *trace.Run, within time.Duration) Report {
	j := &judge{run: r, within: within, Report: Report{start: r.Meta.Start}}
	j.Totals = count(r)
	j.record()
	book := j.replay()
	if !r.Meta.Hub {
		j.overlaps(book)
		j.processesOf(book)
	}
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

// A `judge` checks one record and collects the violations.
type judge struct {
	Report
	run    *trace.Run
	within time.Duration // time limit for ordering the calls of one job
}

func (j *judge) wrong(o Oracle, job string, at time.Duration, format string, args ...any) {
	j.Violations = append(j.Violations, Violation{o, job, at, fmt.Sprintf(format, args...)})
}

// epochAt returns the number of restores up to a given time. An epoch is the
// time between two restores.
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
