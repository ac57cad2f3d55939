package engine

import (
	"fmt"
	"slices"
	"time"

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

// consult is the search for what would put one job into the next plan.
type consult struct {
	state  *State
	entry  *entry
	now    time.Time
	census *census
	head   *ares.Job // of its tenant's jobs before it the first, nil for none
	trials int
	runs   int
	found  []ares.Remedy
	tried  []string // what was tried, so that nothing is twice
}

// remedies are the smallest changes that would put the job into the next plan:
// single ones, or pairs when no single one is known. Each was supposed, and the
// job was in the plan. head is the first of its tenant's jobs before it.
func (s *State) remedies(e *entry, census *census, head *ares.Job, now time.Time) []ares.Remedy {
	c := &consult{state: s, entry: e, now: now, census: census, head: head}
	musts, ok := c.musts()
	if !ok {
		return nil
	}
	if len(musts) == 1 {
		if fits, ok := c.look(musts...); fits && !ok {
			c.beyond(musts[0])
		}
	}
	if len(musts) > 0 && len(c.found) == 0 {
		c.first(slices.Concat(c.fewer(), c.yielding(musts))) // they may get below a limit too
	}
	if len(musts) == 2 && len(c.found) == 0 {
		c.try(musts...)
	}
	if len(c.found) > 0 || len(musts) > 1 {
		return c.found
	}
	options := c.each(musts)
	if len(c.found) == 0 && len(musts) == 0 {
		c.pairs(options)
	}
	if len(c.found) == 0 {
		c.more(musts)
	}
	return c.found
}

// first tries single steps until one helps.
func (c *consult) first(steps []ares.Step) {
	for _, step := range steps {
		if c.try(step) {
			return
		}
	}
}

// helps supposes the steps, and says whether the job then fits, and whether it
// is in the next plan.
func (c *consult) helps(steps []ares.Step) (fits, planned bool) {
	s, e := c.state, c.entry
	at := c.now
	c.trials++
	if e.queue == inDelayed && !at.Before(e.due) {
		steps = append(slices.Clone(steps), ares.Step{Kind: ares.StepWait}) // the next plan does that by itself
	}
	if wait := slices.IndexFunc(steps, func(st ares.Step) bool { return st.Kind == ares.StepWait }); wait >= 0 {
		// Its delay ends with one plan, and it is placed by the one after: only
		// if the first places nobody is it clear what is left for it.
		at = at.Add(time.Duration(steps[wait].Amount) * time.Millisecond)
		rest := slices.DeleteFunc(slices.Clone(steps), func(st ares.Step) bool { return st.Kind == ares.StepWait })
		quiet := false
		s.suppose(e, rest, c.now, func() { quiet = s.quiet(at) })
		if !quiet {
			return false, false
		}
	}
	s.suppose(e, steps, c.now, func() {
		if fits = s.fits(e, at); fits && c.runs < maxRuns {
			c.runs++
			planned = s.planned(e, at)
		}
	})
	return fits, planned
}

// try notes a remedy if it is one.
func (c *consult) try(steps ...ares.Step) bool {
	_, ok := c.look(steps...)
	return ok
}

func (c *consult) look(steps ...ares.Step) (fits, ok bool) {
	key := fmt.Sprint(steps)
	if c.trials >= maxTrials || slices.Contains(c.tried, key) {
		return false, false
	}
	c.tried = append(c.tried, key)
	fits, ok = c.helps(steps)
	if ok {
		c.found = append(c.found, slices.Clone(steps))
	}
	return fits, ok
}

// each tries every option beside what must be in any case, and answers with
// those it came to. One that makes room which others take first is tried with a
// higher priority too.
func (c *consult) each(musts []ares.Step) (options []ares.Step) {
	var second []ares.Step
	for o := range c.options() {
		if c.enough() {
			return options
		}
		options = append(options, o)
		if fits, ok := c.look(append(slices.Clone(musts), o)...); fits && !ok {
			second = append(second, o)
		}
	}
	if len(c.found) > 0 || len(musts) > 0 {
		return options
	}
	for _, o := range second {
		if o.Kind != ares.StepPriority && c.lifted(o) {
			return options
		}
	}
	return options
}

// enough says whether it is time to stop: there are several remedies, or there
// is one and it took long.
func (c *consult) enough() bool {
	return len(c.found) == maxRemedies || len(c.found) > 0 && c.trials >= shortTrials
}

// lifted tries a step with the least class of priority that helps it.
func (c *consult) lifted(steps ...ares.Step) bool {
	levels := c.priorities()
	if len(levels) == 0 {
		return false
	}
	top := len(levels) - 1
	if _, ok := c.helps(append(slices.Clone(steps), levels[top])); !ok {
		return false
	}
	for _, p := range levels {
		if c.try(append(slices.Clone(steps), p)...) {
			return true
		}
	}
	return false
}

// pairs tries each option together with what then is left to do about the rest.
func (c *consult) pairs(options []ares.Step) {
	for _, o := range options {
		if c.enough() || c.trials >= maxTrials {
			return
		}
		census := c.census
		var then []ares.Step
		c.state.suppose(c.entry, []ares.Step{o}, c.now, func() {
			c.census = c.state.look(c.entry.shape, 0)
			then = slices.Collect(c.options())
		})
		c.census = census
		for _, b := range then {
			if c.enough() {
				return
			}
			if o.Kind != b.Kind || o.Field != b.Field {
				c.try(o, b)
			}
		}
	}
}

// more tries to add nodes. It is last because the whole fleet is laid out anew
// for it.
func (c *consult) more(musts []ares.Step) {
	step, ok := c.census.another()
	if !ok {
		return
	}
	if fits, ok := c.look(append(slices.Clone(musts), step)...); fits && !ok && len(musts) == 0 {
		c.lifted(step)
	}
}

// musts are the steps without which nothing else helps. It is false when the
// closed list has none for something that keeps the job waiting.
func (c *consult) musts() ([]ares.Step, bool) {
	s, e, sh := c.state, c.entry, c.entry.shape
	var out []ares.Step
	if !e.settled() || s.doomed(e) {
		return nil, false // only its node's agent can change that
	}
	if e.queue == inDelayed && c.now.Before(e.due) {
		ms := int((e.due.Sub(c.now) + time.Millisecond - 1).Milliseconds())
		out = append(out, ares.Step{Kind: ares.StepWait, Amount: ms, Text: fmt.Sprintf("wait %s until its delay ends", time.Duration(ms)*time.Millisecond)})
	}
	if s.throttled(e) != "" {
		n := s.array(e.id).elements.UnderWay() + 1
		out = append(out, ares.Step{Kind: ares.StepRelax, Field: "array.parallelism", Amount: n, Text: fmt.Sprintf("allow %d elements at once (array.parallelism)", n)})
	}
	out = append(out, c.dependencies()...)
	if sh.tenant.record == nil {
		return nil, false
	}
	if s.overBudget(sh.tenant, c.now) {
		by := int(s.spent(sh.tenant, c.now)/3600) + 1 - sh.tenant.record.GPUHours
		out = append(out, limitStep(sh.tenant.id, "", ares.LimitGPUHours, by))
	}
	for _, short := range sh.leaf.Shortfalls(sh.asks(sh.least)) {
		out = append(out, limitStep(short.Tenant, short.Queue, short.What, int(short.By)))
	}
	return append(out, c.quotas()...), true
}

// dependencies are the jobs that must succeed first. Where one never will, the
// job must do without them.
func (c *consult) dependencies() []ares.Step {
	var out []ares.Step
	for _, id := range c.entry.shape.after {
		if c.state.met(id) {
			continue
		}
		if e := c.state.jobs[id]; e == nil || e.job == nil || e.phase().Final() {
			return []ares.Step{{Kind: ares.StepRelax, Field: "after", Text: "drop after: what it names is not seen to succeed"}}
		}
		out = append(out, ares.Step{Kind: ares.StepSucceed, Target: string(id), Text: fmt.Sprintf("%s succeeds", id)})
	}
	return out
}
