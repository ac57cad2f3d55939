package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// failedExpectation is the error for an expectation that is not met. A failed expectation fails the script, even
// with -rewrite.
type failedExpectation struct{ error }

// RunLine executes one line of a script. RunLine returns an error if the line breaks a law or has an unknown
// command or key. If a command fails for any other reason, RunLine returns nil, because such a command
// changes nothing and breaks no law.
func (w *Cluster) RunLine(line string) error {
	name, args, err := datadriven.ParseLine(line)
	if err != nil || name == "" {
		return err
	}
	_, err = execute(w, name, args)
	if failsScript(err) || name == "simulate" || name == "change-leader" {
		return err
	}
	return nil
}

// PlannedStarts returns the object that checks the planned starts.
func (w *Cluster) PlannedStarts() *laws.PlannedStartCheck { return &w.plannedStarts }

// Preemptions returns the preemptions so far.
func (w *Cluster) Preemptions() *laws.PreemptionHistory { return &w.preemptions }

// doSimulate simulates agents, users and time for a duration, as in: simulate 2h. The key grace= sets how long
// stopped jobs take to end. The key print-jobs=() lists the jobs whose events are printed. With the flag
// `quiet`, no events are printed.
func doSimulate(w *Cluster, in *arguments) (string, error) {
	d, err := time.ParseDuration(in.first())
	if err != nil {
		return "", err
	}
	if w.simulation.grace, err = time.ParseDuration(in.text("grace", defaultGrace.String())); err != nil {
		return "", err
	}
	printJobs, quiet := in.list("print-jobs"), in.hasFlag("quiet")
	var out strings.Builder
	err = w.Simulate(d, func(what string) {
		about := func(name string) bool {
			return strings.Contains(what, ": "+name+" ") || strings.HasSuffix(what, " to "+name)
		}
		if !quiet && (len(printJobs) == 0 || slices.ContainsFunc(printJobs, about)) {
			out.WriteString(what + "\n")
		}
	})
	return out.String(), err
}

// doArrivals submits a job periodically during a simulation, as in: arrivals NAME every=1m runtime=4m. This
// command also accepts the arguments of the command "job". The command "arrivals end NAME" ends these
// submissions.
func doArrivals(w *Cluster, in *arguments) (string, error) {
	if in.first() == "end" && len(in.positional) == 2 {
		w.simulation.streams = slices.DeleteFunc(w.simulation.streams, func(s *jobStream) bool { return s.name == in.positional[1] })
		return "", nil
	}
	s := &jobStream{name: in.first(), next: w.Now}
	var err error
	if s.every, err = time.ParseDuration(in.text("every", "1m")); err != nil || s.every <= 0 {
		return "", fmt.Errorf("arrivals need every=DURATION: %w", err)
	}
	if s.runtime, err = time.ParseDuration(in.text("runtime", "1m")); err != nil {
		return "", err
	}
	s.spec = jobSpec(in)
	w.simulation.streams = append(w.simulation.streams, s)
	return "", nil
}

// doExpect fails the script if an expectation is not met:
//
//	expect no-preemptions
//	expect preemptions v1 v2      of these jobs and no others, each once
//	expect preempted-at-most-once no job more than once
//	expect started big within=40m after it was accepted
//	expect running big small      or another phase
func doExpect(w *Cluster, in *arguments) (string, error) {
	within, err := time.ParseDuration(in.text("within", "0s"))
	if err != nil {
		return "", err
	}
	switch names := in.positional[1:]; in.first() {
	case "no-preemptions":
		err = w.checkPreempted(nil)
	case "preemptions":
		err = w.checkPreempted(names)
	case "preempted-at-most-once":
		if most := w.preemptions.MaxPerJob(); most > 1 {
			err = fmt.Errorf("a job was preempted %d times: %s", most, w.formatPreemptions())
		}
	case "started":
		for _, name := range names {
			if late := w.checkStarted(ares.JobID(name), within); late != nil {
				err = late
			}
		}
	default:
		for _, name := range names {
			run, _ := w.State.Run(ares.JobID(name))
			if string(run.Phase) != in.first() {
				err = fmt.Errorf("%s is %s, not %s", name, run.Phase, in.first())
			}
		}
	}
	if err != nil {
		return "", failedExpectation{err}
	}
	return "", nil
}

// checkPreempted checks that the given jobs were preempted once each, and no other job was preempted.
func (w *Cluster) checkPreempted(names []string) error {
	var were []string
	for i := range w.preemptions.Preemptions {
		were = append(were, w.displayName(w.preemptions.Preemptions[i].Job))
	}
	slices.Sort(were)
	want := slices.Clone(names)
	slices.Sort(want)
	if !slices.Equal(were, want) {
		return fmt.Errorf("preempted were %v, not %v: %s", were, want, w.formatPreemptions())
	}
	return nil
}

// checkStarted checks that a job started within the given time after it was accepted.
func (w *Cluster) checkStarted(id ares.JobID, d time.Duration) error {
	job, ok := w.State.Job(id)
	if !ok {
		return fmt.Errorf("there is no job %s", id)
	}
	run, _ := w.State.Run(id)
	if len(run.Attempts) == 0 || run.Dropped == 0 && run.Attempts[0].Number != 1 {
		return fmt.Errorf("%s has not started, %s after it was accepted", id, w.Now.Sub(job.AcceptedAt))
	}
	if late := run.Attempts[0].PlacedAt.Sub(job.AcceptedAt); late > d {
		return fmt.Errorf("%s started %s after it was accepted, not within %s", id, late, d)
	}
	return nil
}

// doPreemptions prints all preemptions.
func doPreemptions(w *Cluster, _ *arguments) (string, error) { return w.formatPreemptions(), nil }

// formatPreemptions prints all preemptions.
func (w *Cluster) formatPreemptions() string {
	var b strings.Builder
	for _, s := range w.preemptions.Preemptions {
		fmt.Fprintf(&b, "after %s %s was preempted for %s", s.At.Sub(StartTime).Round(time.Second), w.displayName(s.Job), w.displayName(s.Preemptor))
		if s.Why != "" {
			fmt.Fprintf(&b, " (%s)", s.Why)
		}
		b.WriteString("\n")
	}
	if b.Len() == 0 {
		return "nobody was stopped\n"
	}
	return b.String()
}

// doPlannedStarts prints the planned starts of the last decision.
func doPlannedStarts(w *Cluster, _ *arguments) (string, error) {
	var b strings.Builder
	for _, p := range w.State.PlannedStarts() {
		fmt.Fprintf(&b, "%s starts in %s, at the latest in %s, on %s\n", w.displayName(p.Job), p.At.Sub(w.Now), p.Latest.Sub(w.Now), formatSeats(p.Seats))
	}
	if b.Len() == 0 {
		return "nothing is promised\n", nil
	}
	return b.String(), nil
}

// doChangeLeader simulates a change of the leader. The script continues with a new state
// that is built only from the current records. The new state must make the same decision
// as the old one.
func doChangeLeader(w *Cluster, _ *arguments) (string, error) {
	s, err := w.StateFromSnapshot()
	if err != nil {
		return "", failedExpectation{err}
	}
	if w.fastChecks { // compare the effect of the plan, not the texts of refusals
		was, is := engine.Decide(w.State, w.Now), engine.Decide(s, w.Now)
		if was.Digest() != is.Digest() || !was.Wake.Equal(is.Wake) {
			return "", failedExpectation{fmt.Errorf("after a change of the leader it decides\n%s\nand not\n%s", formatPlan(w, is), formatPlan(w, was))}
		}
	} else if err := w.CheckSnapshot(); err != nil {
		return "", failedExpectation{err}
	}
	w.State = s
	return "", nil
}
