package explain

import (
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// These constants limit the search for remedies. A trial applies some steps and tests whether the job would then
// fit if no other job waited. A trial that also simulates a cycle is called a run.
const (
	maxTrials   = 48
	shortTrials = 2 // number of trials after which one remedy is enough
	maxRuns     = 12
	maxRemedies = 3
)

// remedySearch searches for the changes that put one job into the next plan.
type remedySearch struct {
	state     *Explainer
	entry     *job.Entry
	now       time.Time
	diagnosis *diagnosis
	head      *ares.Job // the first job of the same tenant ahead of it, or nil
	trials    int
	runs      int
	found     []ares.Remedy
	tried     []string // keys of the trials, so that none is repeated
}

// findRemedies returns the smallest changes that put the job into the next plan. A remedy is a single step, or a
// pair of steps if no single step helps. Each remedy was simulated, and the simulated plan placed the job. The
// parameter `head` is the first job in the order that is ahead of this job and belongs to the same tenant.
func (ex *Explainer) findRemedies(e *job.Entry, d *diagnosis, head *ares.Job, now time.Time) []ares.Remedy {
	c := &remedySearch{state: ex, entry: e, now: now, diagnosis: d, head: head}
	musts, ok := c.requiredSteps()
	if !ok {
		return nil
	}
	if len(musts) == 1 {
		if fits, ok := c.tryOnce(musts...); fits && !ok {
			c.raiseFurther(musts[0])
		}
	}
	if len(musts) > 0 && len(c.found) == 0 {
		c.tryEach(slices.Concat(c.shrinkSteps(), c.endOwnJobSteps(musts))) // these steps may also bring the job below a limit
	}
	if len(musts) == 2 && len(c.found) == 0 {
		c.tryRemedy(musts...)
	}
	if len(c.found) > 0 || len(musts) > 1 {
		return c.found
	}
	options := c.tryCandidates(musts)
	if len(c.found) == 0 && len(musts) == 0 {
		c.tryPairs(options)
	}
	if len(c.found) == 0 {
		c.tryMoreNodes(musts)
	}
	return c.found
}

// tryEach tries each step alone, until one of them helps.
func (c *remedySearch) tryEach(steps []ares.Step) {
	for _, step := range steps {
		if c.tryRemedy(step) {
			return
		}
	}
}

// The method `simulate` applies the steps. It reports two results: whether the job would then fit if no
// other job waited, and whether the next plan places the job.
func (c *remedySearch) simulate(steps []ares.Step) (fits, planned bool) {
	e := c.entry
	at := c.now
	c.trials++
	if e.Queue == job.InDelayed && !at.Before(e.DelayUntil) {
		steps = append(slices.Clone(steps), ares.Step{Kind: ares.StepWait}) // the next plan makes the job ready
	}
	if wait := slices.IndexFunc(steps, func(st ares.Step) bool { return st.Kind == ares.StepWait }); wait >= 0 {
		// One plan ends the retry delay, and the next plan places the job. The free capacity at the second plan is
		// known only if the first plan places no job.
		at = at.Add(time.Duration(steps[wait].Amount) * time.Millisecond)
		rest := slices.DeleteFunc(slices.Clone(steps), func(st ares.Step) bool { return st.Kind == ares.StepWait })
		quiet := false
		c.state.simulateSteps(e, rest, c.now, func() { quiet = c.state.nextPlanIsQuiet(at) })
		if !quiet {
			return false, false
		}
	}
	c.state.simulateSteps(e, steps, c.now, func() {
		if fits = c.state.fitsAlone(e, at); fits && c.runs < maxRuns {
			c.runs++
			planned = c.state.inNextPlan(e, at)
		}
	})
	return fits, planned
}

// tryRemedy simulates the steps, and adds them to the found remedies if they help.
func (c *remedySearch) tryRemedy(steps ...ares.Step) bool {
	_, ok := c.tryOnce(steps...)
	return ok
}

// tryOnce is like tryRemedy, but also reports whether the job would fit if no other job waited. tryOnce skips
// steps that were tried before.
func (c *remedySearch) tryOnce(steps ...ares.Step) (fits, ok bool) {
	key := fmt.Sprint(steps)
	if c.trials >= maxTrials || slices.Contains(c.tried, key) {
		return false, false
	}
	c.tried = append(c.tried, key)
	fits, ok = c.simulate(steps)
	if ok {
		c.found = append(c.found, slices.Clone(steps))
	}
	return fits, ok
}

// tryCandidates tries every candidate together with the required steps, and returns the candidates that it tried. A
// candidate may free capacity that earlier jobs would use. Then the candidate is tried again, together with a
// higher priority of the job.
func (c *remedySearch) tryCandidates(musts []ares.Step) (options []ares.Step) {
	var second []ares.Step
	for o := range c.remedyCandidates() {
		if c.isDone() {
			return options
		}
		options = append(options, o)
		if fits, ok := c.tryOnce(append(slices.Clone(musts), o)...); fits && !ok {
			second = append(second, o)
		}
	}
	if len(c.found) > 0 || len(musts) > 0 {
		return options
	}
	for _, o := range second {
		if o.Kind != ares.StepPriority && c.tryWithPriority(o) {
			return options
		}
	}
	return options
}

// isDone reports whether the search can stop. The search stops when it has found maxRemedies remedies. After
// shortTrials trials, one remedy is enough.
func (c *remedySearch) isDone() bool {
	return len(c.found) == maxRemedies || len(c.found) > 0 && c.trials >= shortTrials
}

// tryWithPriority combines the steps with a higher priority of the job, and finds the lowest priority with which
// the steps help.
func (c *remedySearch) tryWithPriority(steps ...ares.Step) bool {
	levels := c.prioritySteps()
	if len(levels) == 0 {
		return false
	}
	top := len(levels) - 1
	if _, ok := c.simulate(append(slices.Clone(steps), levels[top])); !ok {
		return false
	}
	for _, p := range levels {
		if c.tryRemedy(append(slices.Clone(steps), p)...) {
			return true
		}
	}
	return false
}

// For each option, tryPairs applies the option and computes the candidates that exist then. It tries the
// option together with each of these candidates.
func (c *remedySearch) tryPairs(options []ares.Step) {
	for _, o := range options {
		if c.isDone() || c.trials >= maxTrials {
			return
		}
		before := c.diagnosis
		var then []ares.Step
		c.state.simulateSteps(c.entry, []ares.Step{o}, c.now, func() {
			c.diagnosis = c.state.diagnose(c.entry.Shape, 0, c.state.windows.StayOf(c.entry, c.now))
			then = slices.Collect(c.remedyCandidates())
		})
		c.diagnosis = before
		for _, b := range then {
			if c.isDone() {
				return
			}
			if o.Kind != b.Kind || o.Field != b.Field {
				c.tryRemedy(o, b)
			}
		}
	}
}

// tryMoreNodes tries to add nodes. tryMoreNodes runs last, because adding nodes rebuilds the node order and all
// caches of the cluster.
func (c *remedySearch) tryMoreNodes(musts []ares.Step) {
	step, ok := c.diagnosis.addNodesStep()
	if !ok {
		return
	}
	if fits, ok := c.tryOnce(append(slices.Clone(musts), step)...); fits && !ok && len(musts) == 0 {
		c.tryWithPriority(step)
	}
}

// requiredSteps returns the steps without which no other step helps. If some blocker cannot be removed by any kind
// of step, requiredSteps returns false.
func (c *remedySearch) requiredSteps() ([]ares.Step, bool) {
	e, sh := c.entry, c.entry.Shape
	var out []ares.Step
	if !e.IsSettled() || c.state.jobs.ArrayIsStopping(e) {
		return nil, false // only the agent of the node can change that
	}
	if len(c.state.jobs.StartBlockers(e.Job, e.Run, c.now)) > 0 {
		return nil, false // the blockers themselves say what the job waits for
	}
	if e.Queue == job.InDelayed && c.now.Before(e.DelayUntil) {
		ms := int((e.DelayUntil.Sub(c.now) + time.Millisecond - 1).Milliseconds())
		out = append(out, ares.Step{Kind: ares.StepWait, Amount: ms, Text: ares.Textf("wait %s until its delay ends", time.Duration(ms)*time.Millisecond)})
	}
	if c.state.jobs.ParallelismText(e) != "" {
		n := c.state.jobs.ArrayOf(e.ID).Elements.UnderWay() + 1
		out = append(out, ares.Step{Kind: ares.StepRelax, Field: "array.parallelism", Amount: n, Text: ares.Textf("allow %d elements at once (array.parallelism)", n)})
	}
	out = append(out, c.dependencySteps()...)
	if sh.Tenant.Record == nil {
		return nil, false
	}
	if c.state.jobs.OverLentBudget(sh, c.now) {
		return nil, false // only the hub can change that
	}
	if c.state.jobs.OverBudget(sh, c.now) {
		by := int(c.state.jobs.BudgetUsed(sh.Tenant, c.now)/3600) + 1 - sh.Tenant.Record.GPUHours
		out = append(out, limitStep(sh.Tenant.ID, "", ares.LimitGPUHours, by))
	}
	for _, short := range sh.Leaf.LimitShortfalls(sh.Use(sh.MinMembers)) {
		out = append(out, limitStep(short.Tenant, short.Queue, short.Resource, int(short.By)))
	}
	return append(out, c.quotaSteps()...), true
}

// dependencySteps returns one step for each dependency that has to succeed first. If a dependency can no longer
// succeed, the only step is to remove the job's dependencies.
func (c *remedySearch) dependencySteps() []ares.Step {
	var out []ares.Step
	for _, id := range c.entry.Shape.After {
		ref := c.state.jobs.DependencyRef(c.entry.Shape, id)
		if c.state.jobs.DependencySucceeded(id) {
			continue
		}
		if e := c.state.jobs.EntryByID[id]; e == nil || e.Job == nil || e.Phase().Final() {
			return []ares.Step{{Kind: ares.StepRelax, Field: "after", Text: ares.Textf("remove the after dependency: %s is not known to have succeeded", ref)}}
		}
		out = append(out, ares.Step{Kind: ares.StepSucceed, Target: ref, Text: ares.Textf("%s succeeds", ref)})
	}
	return out
}
