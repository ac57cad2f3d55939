package verdict

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Story prints everything that a record knows about a job: its grants at the hub, its runs at the hub and in the clusters, what its
// processes wrote (without their signs of life), and the events of the federation.
func Story(r *Run, job string, w io.Writer) {
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	add := func(at time.Duration, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	stores := maps.Clone(r.Clusters)
	stores[Hub] = r.Hub
	for name, one := range stores {
		for i := range one.Store {
			e := &one.Store[i]
			for k := range e.Batch.Events {
				if text := tell(&e.Batch.Events[k], job); text != "" {
					add(e.At, "%s r%d %s", name, e.Batch.Revision, text)
				}
			}
		}
		for _, c := range one.Calls {
			if c.Job == job && (c.Op == trace.Submit || c.Op == trace.Cancel) {
				add(c.Start, "%s %s at %s: %s %s %s", name, c.Op, c.Server, c.Outcome, c.Code, c.Phase)
			}
		}
	}
	for _, l := range r.Witnesses[job] {
		if l.Verb != trace.Beat {
			add(l.At, "process %s on %s attempt %d rank %d token %d = %d<<16+%d %s", l.Verb, l.Node, l.Attempt, l.Rank, l.Fence, l.Fence>>tokenBits, l.Fence&(1<<tokenBits-1), l.Detail)
		}
	}
	for _, e := range r.Meta.Events {
		add(e.At, "%s %s (alive %t)", e.Cluster, e.What, e.Alive)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return int(a.at - b.at) })
	fmt.Fprintf(w, "\njob %s\n", job)
	for _, l := range lines {
		fmt.Fprintf(w, "%9.3fs %s\n", (l.at - r.Meta.Start).Seconds(), l.text)
	}
}

func tell(e *ares.Event, job string) string {
	switch {
	case e.Job != nil && string(e.Job.ID) == job:
		return fmt.Sprintf("accepted, mode %q, origin %+v", e.Job.Mode, e.Job.Origin)
	case e.Grant != nil && string(e.Grant.Job) == job:
		return fmt.Sprintf("grant %s epoch %d to %v%s", e.Grant.State, e.Grant.Epoch, e.Grant.Clusters, e.Grant.Cluster)
	case e.Run != nil && string(e.Run.Job) == job:
		run := &e.Run.Run
		text := fmt.Sprintf("%s %q cluster %q, placed %d, stop %v", run.Phase, run.Reason, run.Cluster, run.Placed, run.Stop != nil)
		if a := run.Last(); a != nil {
			text += fmt.Sprintf(", attempt %d fence %d %s", a.Number, a.Fence, a.Outcome)
			for _, s := range a.Seats {
				text += fmt.Sprintf(" %d:%s/%s", s.Rank, s.Node, s.State)
			}
		}
		return text
	case e.Gone.ID == job:
		return fmt.Sprintf("%s is deleted", e.Gone.Kind)
	}
	return ""
}
