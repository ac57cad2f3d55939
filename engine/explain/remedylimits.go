package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// limitStep raises a limit of a tenant, or of one of its queues.
func limitStep(tenant, queue, limit string, by int) ares.Step {
	target, whose := tenant, "tenant "+tenant
	if queue != "" {
		target = ares.QueueID(tenant, queue)
		whose = "queue " + target
	}
	return ares.Step{Kind: ares.StepLimit, Target: target, Field: limit, Amount: by, Text: fmt.Sprintf("raise %s of %s by %d", limit, whose, by)}
}

// quotaStep raises what a tenant or queue is promised of a model.
func quotaStep(target, model string, by int) ares.Step {
	return ares.Step{
		Kind: ares.StepQuota, Target: target, Field: model, Amount: by,
		Text: fmt.Sprintf("raise the quota of %s by %s", target, countText(by, strings.TrimSpace(model+" GPU"))),
	}
}

// withAmount is the step with another amount.
func withAmount(step ares.Step, by int) ares.Step {
	if step.Kind == ares.StepQuota {
		return quotaStep(step.Target, step.Field, by)
	}
	tenant, queue, _ := strings.Cut(step.Target, "/")
	return limitStep(tenant, queue, step.Field, by)
}

// maxRaise is how many times as much as the job needs by itself a limit is
// raised by, for those ahead of it that need it too.
const maxRaise = 16

// raiseFurther raises a limit or quota further than the job alone would need: those
// ahead of it take the first part. The least amount is looked for by halves.
func (c *remedySearch) raiseFurther(step ares.Step) {
	if step.Kind != ares.StepLimit && step.Kind != ares.StepQuota {
		return
	}
	least, most := step.Amount, step.Amount*maxRaise
	if _, ok := c.simulate([]ares.Step{withAmount(step, most)}); !ok {
		return
	}
	for least+1 < most {
		mid := (least + most) / 2
		if _, ok := c.simulate([]ares.Step{withAmount(step, mid)}); ok {
			most = mid
		} else {
			least = mid
		}
	}
	c.tryRemedy(withAmount(step, most))
}

// quotaSteps are the quotas to raise where all of them leave too little: those of
// the model where the least has to be raised.
func (c *remedySearch) quotaSteps() []ares.Step {
	sh := c.entry.Shape
	if _, open := c.state.jobs.ExcludedModels(sh, sh.MinMembers); open {
		return nil
	}
	var best []ares.Step
	least := 0
	for m := range c.state.cluster.MatchingModels(sh.Request) {
		steps, sum := c.quotaStepsFor(m)
		if len(steps) > 0 && (best == nil || cmp.Or(len(steps)-len(best), sum-least) < 0) {
			best, least = steps, sum
		}
	}
	return best
}

// quotaStepsFor is what has to be raised so that enough of a model is left, and by
// how much in all.
func (c *remedySearch) quotaStepsFor(model int) (steps []ares.Step, sum int) {
	sh := c.entry.Shape
	milli := int64(sh.MinMembers) * int64(max(sh.Request.GPUs*cluster.WholeMilli, sh.Request.Milli))
	for _, short := range sh.Leaf.QuotaShortfalls(model, milli) {
		target := short.Tenant
		if short.Queue != "" {
			target = ares.QueueID(short.Tenant, short.Queue)
		}
		by := int((short.By + cluster.WholeMilli - 1) / cluster.WholeMilli)
		sum += by
		steps = append(steps, quotaStep(target, short.Resource, by))
	}
	return steps, sum
}

// openModelSteps is the raise of one quota that opens a model which quotas leave too
// little of, for each such model.
func (c *remedySearch) openModelSteps() []ares.Step {
	var out []ares.Step
	for m := range c.state.cluster.MatchingModels(c.entry.Shape.Request) {
		if c.diagnosis.request.Ban&cluster.ModelBit(m) == 0 {
			continue
		}
		if steps, _ := c.quotaStepsFor(m); len(steps) == 1 {
			out = append(out, steps[0])
		}
	}
	return out
}
