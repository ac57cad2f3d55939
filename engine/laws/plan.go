package laws

import (
	"fmt"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// checkForm checks the parts of a plan that do not depend on resources.
func checkForm(t *checker) error {
	p := t.plan
	if p.Revision != t.state.Revision() {
		return fmt.Errorf("it is for revision %d, the state is at %d", p.Revision, t.state.Revision())
	}
	once := map[ares.JobID]bool{}
	for _, id := range writtenRuns(p) {
		if once[id] {
			return fmt.Errorf("it touches the run of %s twice", id)
		}
		once[id] = true
	}
	for _, id := range p.Ready {
		run, _ := t.state.Run(id)
		if !run.Settled() || run.Phase == ares.Pending || !run.Phase.Waiting() || p.Now.Before(run.NotBefore) {
			return fmt.Errorf("it readies %s, which is %s", id, run.Phase)
		}
	}
	for _, stop := range p.Stop {
		run, _ := t.state.Run(stop.Job)
		if err := run.RequestStop(stop.Stop); err != nil {
			return fmt.Errorf("it stops %s: %w", stop.Job, err)
		}
	}
	if !p.Wake.IsZero() && p.Wake.Before(p.Now) {
		return fmt.Errorf("it wakes at %s, in the past", p.Wake)
	}
	if p.Empty() && p.Wake.Equal(p.Now) {
		return fmt.Errorf("it changes nothing and wakes at once: the next would be the same, for ever")
	}
	if len(p.Place) > config.MaxPlacings || len(p.Ready) > config.MaxPlacings || len(p.Refuse) > config.MaxRefusals {
		return fmt.Errorf("it is too long: %d, %d and %d", len(p.Ready), len(p.Place), len(p.Refuse))
	}
	return nil
}

// writtenRuns returns every run that the plan writes.
func writtenRuns(p *ares.Plan) []ares.JobID {
	out := append([]ares.JobID(nil), p.Ready...)
	for i := range p.Place {
		out = append(out, p.Place[i].Job)
	}
	for i := range p.Arrays {
		out = append(out, p.Arrays[i].Job)
	}
	for i := range p.Stop {
		out = append(out, p.Stop[i].Job)
	}
	for i := range p.Nominate {
		out = append(out, p.Nominate[i].Job)
	}
	for i := range p.Withdraw {
		out = append(out, p.Withdraw[i].Job)
	}
	return out
}

// checkArrays checks that each array step contains exactly the elements it
// creates, in order, within the array's parallelism.
func checkArrays(t *checker) error {
	p := t.plan
	made := map[ares.JobID][]int{}
	for _, pl := range p.Place {
		if pl.ArrayOf == "" {
			continue
		}
		if pl.Job != ares.ElementID(pl.ArrayOf, pl.Index) {
			return fmt.Errorf("element %d of %s is not %s", pl.Index, pl.ArrayOf, pl.Job)
		}
		made[pl.ArrayOf] = append(made[pl.ArrayOf], pl.Index)
	}
	for _, step := range p.Arrays {
		run, _ := t.state.Run(step.Job)
		job, ok := t.state.Job(step.Job)
		if !ok {
			return fmt.Errorf("there is no array %s", step.Job)
		}
		for i, index := range made[step.Job] {
			if index != run.Next+i {
				return fmt.Errorf("array %s has %d elements and makes number %d", step.Job, run.Next, index)
			}
		}
		n := len(made[step.Job])
		if step.Next != run.Next+n || step.Next > job.Array.Count || n > job.ElementsAtOnce() || n > 0 && n+t.unfinishedElements(job, run.Next) > job.Array.Parallelism {
			return fmt.Errorf("array %s makes %d elements after %d and then has %d", step.Job, n, run.Next, step.Next)
		}
		if err := run.Advance(&step, p.Now); err != nil {
			return fmt.Errorf("array %s: %w", step.Job, err)
		}
		delete(made, step.Job)
	}
	if len(made) > 0 {
		return fmt.Errorf("%d arrays have elements made without a step", len(made))
	}
	return nil
}

// unfinishedElements counts the created elements of an array that have not
// finished.
func (t *checker) unfinishedElements(job *ares.Job, made int) int {
	n := 0
	for i := range made {
		if run, ok := t.state.Run(ares.ElementID(job.ID, i)); ok && !run.Phase.Final() {
			n++
		}
	}
	return n
}
