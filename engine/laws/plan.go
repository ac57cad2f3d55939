package laws

import (
	"fmt"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// checkForm checks the parts of a plan that do not depend on resources.
func checkForm(t *checker) error {
	p := t.plan
	if p.Revision != t.state.Revision() {
		return fmt.Errorf("the plan is for revision %d, but the state is at revision %d", p.Revision, t.state.Revision())
	}
	once := map[ares.JobID]bool{}
	for _, id := range writtenRuns(p) {
		if once[id] {
			return fmt.Errorf("the plan changes job %s twice", id)
		}
		once[id] = true
	}
	for _, id := range p.Ready {
		run, _ := t.state.Run(id)
		if !run.Settled() || run.Phase == ares.Pending || !run.Phase.Waiting() || p.Now.Before(run.NotBefore) {
			return fmt.Errorf("the plan returns %s to the queue too early: either its phase (%s) is wrong, or its processes have not ended, or its delay has not ended", id, run.Phase)
		}
	}
	for _, stop := range p.Stop {
		run, _ := t.state.Run(stop.Job)
		if err := run.RequestStop(stop.Stop); err != nil {
			return fmt.Errorf("the plan stops %s: %w", stop.Job, err)
		}
	}
	if !p.Wake.IsZero() && p.Wake.Before(p.Now) {
		return fmt.Errorf("the plan's wake-up time %s is in the past", p.Wake)
	}
	if p.Empty() && p.Wake.Equal(p.Now) {
		return fmt.Errorf("the plan changes nothing but asks for another cycle at once, so cycles would repeat forever")
	}
	if len(p.Place) > config.MaxPlacings || len(p.Ready) > config.MaxPlacings || len(p.Refuse) > config.MaxRefusals {
		return fmt.Errorf("the plan has too many changes: it returns %d jobs to the queue, places %d jobs and refuses %d jobs", len(p.Ready), len(p.Place), len(p.Refuse))
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

// checkArrays checks that each change of an array in the plan matches the elements that
// the plan creates. The elements must be in order and within the array's parallelism.
func checkArrays(t *checker) error {
	p := t.plan
	made := map[ares.JobID][]int{}
	for _, pl := range p.Place {
		if pl.ArrayOf == "" {
			continue
		}
		if pl.Job != ares.ElementID(pl.ArrayOf, pl.Index) {
			return fmt.Errorf("element %d of array %s is placed with the wrong job ID %s", pl.Index, pl.ArrayOf, pl.Job)
		}
		made[pl.ArrayOf] = append(made[pl.ArrayOf], pl.Index)
	}
	for _, step := range p.Arrays {
		run, _ := t.state.Run(step.Job)
		job, ok := t.state.Job(step.Job)
		if !ok {
			return fmt.Errorf("the plan creates elements of array %s, which does not exist", step.Job)
		}
		for i, index := range made[step.Job] {
			if index != run.Next+i {
				return fmt.Errorf("the next element of array %s is %d, but the plan creates element %d", step.Job, run.Next+i, index)
			}
		}
		n := len(made[step.Job])
		if step.Next != run.Next+n || step.Next > job.Array.Count || n > job.ElementsAtOnce() || n > 0 && n+t.unfinishedElements(job, run.Next) > job.Array.Parallelism {
			return fmt.Errorf("the plan either places too many elements of array %s or records a wrong total: created before=%d, placed=%d, recorded total=%d", step.Job, run.Next, n, step.Next)
		}
		if err := run.Advance(&step, p.Now); err != nil {
			return fmt.Errorf("array %s: %w", step.Job, err)
		}
		delete(made, step.Job)
	}
	if len(made) > 0 {
		return fmt.Errorf("the plan places elements of %d arrays, but does not record these elements as created", len(made))
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
