package verdict

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
)

// These are the oracles of all clusters together.
const (
	OneCluster  check.Oracle = "O7" // a hub's job is started in one cluster only, and never runs in two at the same time
	WithinLoans check.Oracle = "O8" // neither loans nor use exceed a tenant's limit
	TokensGrow  check.Oracle = "O9" // the fencing tokens of a job only grow
)

// Report is the result of judging one run.
type Report struct {
	Hub      check.Report
	Clusters map[string]check.Report
	// Federation has the violations of the oracles of all clusters together. Excused are those that the documentation allows.
	Federation, Excused []check.Violation
	Totals              Totals

	start time.Duration
}

// Totals counts what the oracles of all clusters together have judged. A run in which nothing happened proves nothing.
type Totals struct {
	Granted int            // jobs of the hub that were started
	Moved   int            // of these, jobs that were started in several clusters
	Grants  int            // under which they were started
	Lent    int            // states of the loans
	Most    map[string]int // the largest use of each tenant with a limit
	Lines   int            // that processes wrote
}

// Violations returns all violations of a report. The name of its store comes before the text of each.
func (r *Report) Violations() []check.Violation {
	out := slices.Clone(r.Federation)
	add := func(store string, of check.Report) {
		for _, v := range of.Violations {
			v.Text = store + ": " + v.Text
			v.At -= r.start
			out = append(out, v)
		}
	}
	add(Hub, r.Hub)
	for _, name := range slices.Sorted(maps.Keys(r.Clusters)) {
		add(name, r.Clusters[name])
	}
	return out
}

// Print writes the report as text.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "== %s\n", Hub)
	r.Hub.Print(w)
	for _, name := range slices.Sorted(maps.Keys(r.Clusters)) {
		fmt.Fprintf(w, "== %s\n", name)
		one := r.Clusters[name]
		one.Print(w)
	}
	t := &r.Totals
	fmt.Fprintf(w, "== all\ngranted   %d jobs of the hub were started under %d grants, %d of them in several clusters\n", t.Granted, t.Grants, t.Moved)
	fmt.Fprintf(w, "lent      %d states of the loans; most in use %v\n", t.Lent, t.Most)
	for head, list := range map[string][]check.Violation{"excused": r.Excused, "VIOLATION": r.Federation} { // order-free: at most two blocks
		for _, v := range list {
			fmt.Fprintf(w, "%s %s\n", head, v)
		}
	}
	fmt.Fprintf(w, "%d violations\n", len(r.Violations()))
}

// A `judge` judges one record and collects the violations.
type judge struct {
	Report
	run   *Run
	lives map[string][]*life // of the processes of each job, by token
}

// Judge judges a record and reports the violations.
func Judge(r *Run) Report {
	j := &judge{run: r, Report: Report{start: r.Meta.Start, Clusters: map[string]check.Report{}}}
	j.gather()
	j.split()
	r.Hub.Meta.OwnersRestored = slices.ContainsFunc(r.Meta.Events, func(e Event) bool { return e.What == Restored && e.Cluster != Hub })
	j.Hub = check.Run(r.Hub)
	for name, one := range r.Clusters {
		j.Clusters[name] = check.Run(one)
	}
	j.oneCluster()
	j.tokens()
	j.lent()
	j.used()
	slices.SortFunc(j.Federation, func(a, b check.Violation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Oracle, b.Oracle), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Text, b.Text))
	})
	return j.Report
}

func (j *judge) violation(o check.Oracle, job string, at time.Duration, format string, args ...any) check.Violation {
	return check.Violation{Oracle: o, Job: job, At: at - j.start, Text: fmt.Sprintf(format, args...)}
}

func (j *judge) wrong(o check.Oracle, job string, at time.Duration, format string, args ...any) {
	j.Federation = append(j.Federation, j.violation(o, job, at, format, args...))
}
