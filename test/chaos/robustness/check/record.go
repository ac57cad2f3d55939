package check

import (
	"slices"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The record itself must be valid, because the results for an invalid record
// are meaningless. Faults must have a kind, and operations and outcomes must
// be known. Calls must end after they begin, and restores must be in order.
// The replay of the store checks that the recorded revisions increase.

func (j *judge) record() {
	if len(j.run.Store) == 0 {
		j.wrong(CleanRecord, "", j.run.Meta.Start, "nothing of the store is recorded: nothing can be judged by it")
	}
	for _, f := range j.run.Faults {
		if f.Kind == "" {
			j.wrong(CleanRecord, "", f.At, "a fault of %s has no kind", f.Target)
		}
		if f.Excuses && !slices.Contains(j.run.Meta.Nodes, f.Target) {
			j.wrong(CleanRecord, "", f.At, "fault %s excuses overlaps on %q, which is no node", f.Kind, f.Target)
		}
		if f.Until != 0 && f.Until < f.At {
			j.wrong(CleanRecord, "", f.At, "fault %s of %s was taken back before it was made", f.Kind, f.Target)
		}
	}
	for i, r := range j.run.Meta.Restores {
		if r.Highest <= 0 || r.Backup > r.Highest || i > 0 && r.At < j.run.Meta.Restores[i-1].At {
			j.wrong(CleanRecord, "", r.At, "restore of revision %d at %d: a backup is older than what it replaces, and restores are in order", r.Backup, r.Highest)
		}
	}
	for i := range j.run.Calls {
		j.call(&j.run.Calls[i])
	}
}

func (j *judge) call(c *trace.Call) {
	ops := []trace.Op{trace.Submit, trace.Get, trace.List, trace.Cancel}
	outcomes := []trace.Outcome{trace.OK, trace.Refused, trace.Unknown}
	switch {
	case !slices.Contains(ops, c.Op) || !slices.Contains(outcomes, c.Outcome):
		j.wrong(CleanRecord, c.Job, c.Start, "a call is %q with outcome %q", c.Op, c.Outcome)
	case c.End < c.Start:
		j.wrong(CleanRecord, c.Job, c.Start, "a %s ended before it began", c.Op)
	case c.Op != trace.List && c.Job == "":
		j.wrong(CleanRecord, "", c.Start, "a %s names no job", c.Op)
	}
}
