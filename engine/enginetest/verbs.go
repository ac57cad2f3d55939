package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// unmet is an expectation that does not hold: it fails the script, whatever the
// script says, and rewriting it does not help.
type unmet struct{ error }

// Do does one line of a script, and says whether a law was broken by it. What the
// line cannot do, it does not: that breaks no law.
func (w *World) Do(line string) error {
	name, args, err := datadriven.ParseLine(line)
	if err != nil || name == "" {
		return err
	}
	_, err = execute(w, name, args)
	missed, broken := (unmet{}), (laws.Violation{})
	if errors.As(err, &missed) || errors.As(err, &broken) || name == "live" || name == "restart" {
		return err
	}
	return nil
}

// Keeper is what came of the promises so far.
func (w *World) Keeper() *laws.Keeper { return &w.keeper }

// Witness is what was seen of the run so far.
func (w *World) Witness() *laws.Witness { return &w.witness }

// doLive carries the world on: live 2h, with grace= for those who are stopped
// and tell=() for the names of whom to hear of; nobody is told of with quiet.
func doLive(w *World, in *words) (string, error) {
	d, err := time.ParseDuration(in.name())
	if err != nil {
		return "", err
	}
	if w.life.grace, err = time.ParseDuration(in.text("grace", defaultGrace.String())); err != nil {
		return "", err
	}
	tell, quiet := in.list("tell"), in.has("quiet")
	var out strings.Builder
	err = w.Live(d, func(what string) {
		about := func(name string) bool {
			return strings.Contains(what, ": "+name+" ") || strings.HasSuffix(what, " to "+name)
		}
		if !quiet && (len(tell) == 0 || slices.ContainsFunc(tell, about)) {
			out.WriteString(what + "\n")
		}
	})
	return out.String(), err
}

// doStream brings a job every so often as long as the world is carried on:
// stream NAME every=1m runs=4m and what a job can have. stream end NAME ends it.
func doStream(w *World, in *words) (string, error) {
	if in.name() == "end" && len(in.plain) == 2 {
		w.life.streams = slices.DeleteFunc(w.life.streams, func(s *stream) bool { return s.name == in.plain[1] })
		return "", nil
	}
	s := &stream{name: in.name(), next: w.Now}
	var err error
	if s.every, err = time.ParseDuration(in.text("every", "1m")); err != nil || s.every <= 0 {
		return "", fmt.Errorf("a stream needs every=DURATION: %w", err)
	}
	if s.runs, err = time.ParseDuration(in.text("runs", "1m")); err != nil {
		return "", err
	}
	s.spec = specOf(in)
	w.life.streams = append(w.life.streams, s)
	return "", nil
}

// doExpect fails the script when something does not hold:
//
//	expect nobody stopped
//	expect stopped v1 v2          these and nobody else, each once
//	expect stopped-once           whoever was stopped at all
//	expect started big within=40m since it was accepted
//	expect running big small      or another phase
func doExpect(w *World, in *words) (string, error) {
	within, err := time.ParseDuration(in.text("within", "0s"))
	if err != nil {
		return "", err
	}
	switch names := in.plain[1:]; in.name() {
	case "nobody":
		err = w.expectStopped(nil)
	case "stopped":
		err = w.expectStopped(names)
	case "stopped-once":
		if most := w.witness.Most(); most > 1 {
			err = fmt.Errorf("somebody was stopped %d times: %s", most, w.stops())
		}
	case "started":
		for _, name := range names {
			if late := w.startedWithin(ares.JobID(name), within); late != nil {
				err = late
			}
		}
	default:
		for _, name := range names {
			run, _ := w.State.Run(ares.JobID(name))
			if string(run.Phase) != in.name() {
				err = fmt.Errorf("%s is %s, not %s", name, run.Phase, in.name())
			}
		}
	}
	if err != nil {
		return "", unmet{err}
	}
	return "", nil
}

func (w *World) expectStopped(names []string) error {
	var were []string
	for i := range w.witness.Stopped {
		were = append(were, w.label(w.witness.Stopped[i].Job))
	}
	slices.Sort(were)
	want := slices.Clone(names)
	slices.Sort(want)
	if !slices.Equal(were, want) {
		return fmt.Errorf("stopped were %v, not %v: %s", were, want, w.stops())
	}
	return nil
}

func (w *World) startedWithin(id ares.JobID, d time.Duration) error {
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

// doStops prints who gave way to whom.
func doStops(w *World, _ *words) (string, error) { return w.stops(), nil }

func (w *World) stops() string {
	var b strings.Builder
	for _, s := range w.witness.Stopped {
		fmt.Fprintf(&b, "after %s %s gave way to %s", s.At.Sub(Epoch).Round(time.Second), w.label(s.Job), w.label(s.To))
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

// doPromises prints for whom a place is kept, and when, as of the last decision.
func doPromises(w *World, _ *words) (string, error) {
	var b strings.Builder
	for _, p := range w.State.PlannedStarts() {
		fmt.Fprintf(&b, "%s starts in %s, at the latest in %s, on %s\n", w.label(p.Job), p.At.Sub(w.Now), p.Latest.Sub(w.Now), places(p.Seats))
	}
	if b.Len() == 0 {
		return "nothing is promised\n", nil
	}
	return b.String(), nil
}

// doRestart goes on with a new state that has only the present records, as after
// a change of the leader, and wants it to decide alike.
func doRestart(w *World, _ *words) (string, error) {
	s, err := w.Fresh()
	if err != nil {
		return "", unmet{err}
	}
	if w.hurry { // what it does counts, not in which words it refuses
		was, is := engine.Decide(w.State, w.Now), engine.Decide(s, w.Now)
		if was.Digest() != is.Digest() || !was.Wake.Equal(is.Wake) {
			return "", unmet{fmt.Errorf("after a restart it decides\n%s\nand not\n%s", describe(w, is), describe(w, was))}
		}
	} else if err := w.Resume(); err != nil {
		return "", unmet{err}
	}
	w.State = s
	return "", nil
}
