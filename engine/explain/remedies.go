package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// Bounds on the search for remedies. A trial supposes something and looks
// whether the job fits; a run is a trial that goes on to the cycle.
const (
	maxTrials   = 48
	shortTrials = 2 // where one remedy is known already
	maxRuns     = 12
	maxRemedies = 3
)

// remedySearch is the search for what would put one job into the next plan.
type remedySearch struct {
	state     *Explainer
	entry     *job.Entry
	now       time.Time
	diagnosis *diagnosis
	head      *ares.Job // of its tenant's jobs before it the first, nil for none
	trials    int
	runs      int
	found     []ares.Remedy
	tried     []string // what was tried, so that nothing is twice
}

// findRemedies are the smallest changes that would put the job into the next plan:
// single ones, or pairs when no single one is known. Each was supposed, and the
// job was in the plan. head is the first of its tenant's jobs before it.
func (ex *Explainer) findRemedies(e *job.Entry, census *diagnosis, head *ares.Job, now time.Time) []ares.Remedy {
	c := &remedySearch{state: ex, entry: e, now: now, diagnosis: census, head: head}
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
		c.tryEach(slices.Concat(c.shrinkSteps(), c.endOwnJobSteps(musts))) // they may get below a limit too
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

// tryEach tries single steps until one helps.
func (c *remedySearch) tryEach(steps []ares.Step) {
	for _, step := range steps {
		if c.tryRemedy(step) {
			return
		}
	}
}

// simulate supposes the steps, and says whether the job then fits, and whether it
// is in the next plan.
func (c *remedySearch) simulate(steps []ares.Step) (fits, planned bool) {
	e := c.entry
	at := c.now
	c.trials++
	if e.Queue == job.InDelayed && !at.Before(e.DelayUntil) {
		steps = append(slices.Clone(steps), ares.Step{Kind: ares.StepWait}) // the next plan does that by itself
	}
	if wait := slices.IndexFunc(steps, func(st ares.Step) bool { return st.Kind == ares.StepWait }); wait >= 0 {
		// Its delay ends with one plan, and it is placed by the one after: only
		// if the first places nobody is it clear what is left for it.
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

// tryRemedy notes a remedy if it is one.
func (c *remedySearch) tryRemedy(steps ...ares.Step) bool {
	_, ok := c.tryOnce(steps...)
	return ok
}

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

// tryCandidates tries every option beside what must be in any case, and answers with
// those it came to. One that makes room which others take first is tried with a
// higher priority too.
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

// isDone says whether it is time to stop: there are several remedies, or there
// is one and it took long.
func (c *remedySearch) isDone() bool {
	return len(c.found) == maxRemedies || len(c.found) > 0 && c.trials >= shortTrials
}

// tryWithPriority tries a step with the least class of priority that helps it.
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

// tryPairs tries each option together with what then is left to do about the rest.
func (c *remedySearch) tryPairs(options []ares.Step) {
	for _, o := range options {
		if c.isDone() || c.trials >= maxTrials {
			return
		}
		census := c.diagnosis
		var then []ares.Step
		c.state.simulateSteps(c.entry, []ares.Step{o}, c.now, func() {
			c.diagnosis = c.state.diagnose(c.entry.Shape, 0)
			then = slices.Collect(c.remedyCandidates())
		})
		c.diagnosis = census
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

// tryMoreNodes tries to add nodes. It is last because the whole fleet is laid out anew
// for it.
func (c *remedySearch) tryMoreNodes(musts []ares.Step) {
	step, ok := c.diagnosis.addNodesStep()
	if !ok {
		return
	}
	if fits, ok := c.tryOnce(append(slices.Clone(musts), step)...); fits && !ok && len(musts) == 0 {
		c.tryWithPriority(step)
	}
}

// requiredSteps are the steps without which nothing else helps. It is false when the
// closed list has none for something that keeps the job waiting.
func (c *remedySearch) requiredSteps() ([]ares.Step, bool) {
	e, sh := c.entry, c.entry.Shape
	var out []ares.Step
	if !e.IsSettled() || c.state.jobs.ArrayIsStopping(e) {
		return nil, false // only its node's agent can change that
	}
	if e.Queue == job.InDelayed && c.now.Before(e.DelayUntil) {
		ms := int((e.DelayUntil.Sub(c.now) + time.Millisecond - 1).Milliseconds())
		out = append(out, ares.Step{Kind: ares.StepWait, Amount: ms, Text: fmt.Sprintf("wait %s until its delay ends", time.Duration(ms)*time.Millisecond)})
	}
	if c.state.jobs.ParallelismText(e) != "" {
		n := c.state.jobs.ArrayOf(e.ID).Elements.UnderWay() + 1
		out = append(out, ares.Step{Kind: ares.StepRelax, Field: "array.parallelism", Amount: n, Text: fmt.Sprintf("allow %d elements at once (array.parallelism)", n)})
	}
	out = append(out, c.dependencySteps()...)
	if sh.Tenant.Record == nil {
		return nil, false
	}
	if c.state.jobs.OverBudget(sh.Tenant, c.now) {
		by := int(c.state.jobs.BudgetUsed(sh.Tenant, c.now)/3600) + 1 - sh.Tenant.Record.GPUHours
		out = append(out, limitStep(sh.Tenant.ID, "", ares.LimitGPUHours, by))
	}
	for _, short := range sh.Leaf.LimitShortfalls(sh.Use(sh.MinMembers)) {
		out = append(out, limitStep(short.Tenant, short.Queue, short.Resource, int(short.By)))
	}
	return append(out, c.quotaSteps()...), true
}

// dependencySteps are the jobs that must succeed first. Where one never will, the
// job must do without them.
func (c *remedySearch) dependencySteps() []ares.Step {
	var out []ares.Step
	for _, id := range c.entry.Shape.After {
		if c.state.jobs.DependencySucceeded(id) {
			continue
		}
		if e := c.state.jobs.EntryByID[id]; e == nil || e.Job == nil || e.Phase().Final() {
			return []ares.Step{{Kind: ares.StepRelax, Field: "after", Text: "drop after: what it names is not seen to succeed"}}
		}
		out = append(out, ares.Step{Kind: ares.StepSucceed, Target: string(id), Text: fmt.Sprintf("%s succeeds", id)})
	}
	return out
}
