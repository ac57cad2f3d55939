package enginetest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// formatRemedies prints the remedies of an explanation.
func formatRemedies(e *ares.Explanation) string {
	var b strings.Builder
	for _, r := range e.Remedies {
		var steps []string
		for _, s := range r {
			steps = append(steps, fmt.Sprintf("%s (%s)", s.Text, s.Kind))
		}
		fmt.Fprintf(&b, "  would help: %s\n", strings.Join(steps, ", and "))
	}
	return cmp.Or(b.String(), "  would help: nothing that is known\n")
}

// formatQueuePosition prints the job's position in its queue, and the jobs that hold the capacity that this job
// needs.
func (w *Cluster) formatQueuePosition(e *ares.Explanation) string {
	var b strings.Builder
	if e.Rank > 0 {
		fmt.Fprintf(&b, "  in line: %d of %d in queue %s", e.Rank, e.Of, e.Queue)
		for _, a := range e.Ahead {
			if a.Tenant != "" {
				fmt.Fprintf(&b, ", behind %d of its tenant's, first %s", a.Jobs, a.First)
			} else {
				fmt.Fprintf(&b, ", behind %d of other tenants", a.Jobs)
			}
		}
		b.WriteString("\n")
	}
	if e.ETA.Known() {
		fmt.Fprintf(&b, "  starts: %s\n", w.formatETA(e.ETA))
	}
	if h := e.Hold; h != nil && (h.Held || w.hasWaited(e.Job, w.State.Config().Backfill.DrainAfter)) {
		fmt.Fprintf(&b, "  hold: %t, in %s at the latest, %d of %d GPUs free, %s GPU time idle in %s, %d jobs later by %s\n", h.Held, h.Begins.Sub(w.Now).Round(time.Second), h.Free, h.GPUs,
			h.Idle.Round(time.Second), h.Until.Sub(w.Now).Round(time.Second), h.Delayed, h.Delay.Round(time.Second))
	}
	for _, h := range e.Holders {
		fmt.Fprintf(&b, "  held: %d GPUs on %d nodes by %s\n", h.GPUs, h.Nodes, cmp.Or(string(h.Job), "other tenants"))
	}
	return b.String()
}

// formatETA prints the estimated start of a job.
func (w *Cluster) formatETA(e ares.ETA) string {
	in := func(at time.Time) string {
		if at.IsZero() {
			return "?"
		}
		return at.Sub(w.Now).Round(time.Second).String()
	}
	kept := ""
	if e.Reserved {
		kept = "kept, "
	}
	return fmt.Sprintf("in %s to %s (%s%s)", in(e.Earliest), in(e.Latest), kept, e.Basis)
}

// displayName returns the name of a job in a script.
func (w *Cluster) displayName(id ares.JobID) string {
	if job, ok := w.State.Job(id); ok && job.ArrayOf != "" {
		return job.Name
	}
	return string(id)
}

// formatPlan prints a plan.
func formatPlan(w *Cluster, p ares.Plan) string {
	var b strings.Builder
	for _, id := range p.Ready {
		fmt.Fprintf(&b, "%s is ready\n", w.displayName(id))
	}
	for _, step := range p.Arrays {
		if step.Phase != "" {
			fmt.Fprintf(&b, "%s is %s: %s\n", step.Job, step.Phase, step.Reason)
		}
	}
	for _, stop := range p.Stop {
		fmt.Fprintf(&b, "%s is to stop: %s by %s\n", w.displayName(stop.Job), stop.Stop.Why, stop.Stop.By)
	}
	for _, n := range p.Nominate {
		fmt.Fprintf(&b, "%s is kept %s\n", n.Job, formatNomination(w, &n.Nomination))
	}
	for _, n := range p.Withdraw {
		fmt.Fprintf(&b, "%s has no seats kept any more: %s\n", n.Job, n.Why)
	}
	for i, pl := range p.Place {
		if i == 10 {
			fmt.Fprintf(&b, "and %d more\n", len(p.Place)-i)
			break
		}
		name := w.displayName(pl.Job)
		if pl.ArrayOf != "" {
			name = fmt.Sprintf("%s[%d]", pl.ArrayOf, pl.Index)
		}
		fmt.Fprintf(&b, "%s on %s, score %d\n", name, formatSeats(pl.Seats), pl.Score)
	}
	for _, n := range p.Note {
		fmt.Fprintf(&b, "of %s is noted: %s\n", w.displayName(n.Job), n.Text)
	}
	for _, r := range p.Refuse {
		fmt.Fprintf(&b, "%s waits: %s\n", w.displayName(r.Job), r)
	}
	if !p.Wake.IsZero() {
		fmt.Fprintf(&b, "wake in %s\n", p.Wake.Sub(p.Now).Round(time.Millisecond))
	}
	return cmp.Or(b.String(), "nothing to do\n")
}

// formatNomination prints the nominated seats of a job, with the cost of each
// victim.
func formatNomination(w *Cluster, n *ares.Nomination) string {
	out := fmt.Sprintf("%s by %s", formatSeats(n.Seats), n.Why)
	for i, v := range n.Victims {
		if i == 10 {
			return out + fmt.Sprintf(" and %d more", len(n.Victims)-i)
		}
		out += fmt.Sprintf(", %s gives %d/1000 and loses %.0f GPU-seconds (%s)", w.displayName(v.Job), v.Preemption.Milli, v.Preemption.GPUSeconds(), v.Preemption.Why)
	}
	return out
}

// formatBlockers prints the blockers of a refusal.
func formatBlockers(r ares.Refusal) string {
	var b strings.Builder
	for _, bl := range r.Blockers {
		fmt.Fprintf(&b, "  %s: %s\n", bl.Kind, bl)
	}
	return b.String()
}

// formatSeats prints seats as node[devices]. For a shared device, the allocated thousandths are also
// printed.
func formatSeats(seats []ares.Seat) string {
	var parts []string
	for _, s := range seats {
		var devices []string
		for _, sh := range s.Shares {
			d := strconv.Itoa(sh.Index)
			if sh.Milli < 1000 {
				d += fmt.Sprintf(":%d", sh.Milli)
			}
			devices = append(devices, d)
		}
		parts = append(parts, s.Node+"["+strings.Join(devices, " ")+"]")
	}
	return strings.Join(parts, " ")
}

// hasWaited reports whether the job was accepted at least the given time ago.
func (w *Cluster) hasWaited(id ares.JobID, since time.Duration) bool {
	job, ok := w.State.Job(id)
	return ok && !w.Now.Before(job.AcceptedAt.Add(since))
}
