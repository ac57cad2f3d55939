package explain

import (
	"cmp"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// limitStep returns the step that raises a limit of a tenant or of one of its queues.
func limitStep(tenant, queue, limit string, by int) ares.Step {
	target := ares.ScopeRef(tenant, queue)
	return ares.Step{Kind: ares.StepLimit, Target: target, Field: limit, Amount: by, Text: ares.Textf("raise %s of %s by %d", limit, target, by)}
}

// quotaStep returns the step that raises the quota of a tenant or queue for a model.
func quotaStep(target ares.Ref, model string, by int) ares.Step {
	return ares.Step{
		Kind: ares.StepQuota, Target: target, Field: model, Amount: by,
		Text: ares.Textf("raise the quota of %s by %s", target, countText(by, strings.TrimSpace(model+" GPU"))),
	}
}

// withAmount returns a copy of the step with a different amount and text.
func withAmount(step ares.Step, by int) ares.Step {
	if step.Kind == ares.StepQuota {
		return quotaStep(step.Target, step.Field, by)
	}
	return limitStep(step.Target.Tenant, step.Target.Queue, step.Field, by)
}

// maxRaise limits how far a limit may be raised. It is a multiple of the amount that the job itself needs.
// maxRaise is larger than 1, because earlier jobs in the order count against the same limit.
const maxRaise = 16

// raiseFurther raises a limit or quota by more than the job alone needs, because earlier jobs in the order also
// use the added amount. A binary search finds the smallest sufficient amount.
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

// If the quotas of every model are too small, quotaSteps returns the quotas to raise. It chooses the GPU model
// that needs the fewest steps. If several models need the same number of steps, quotaSteps chooses the model with
// the smallest sum of raises.
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

// quotaStepsFor returns the quotas that must be raised so that the job can use GPUs of a
// model, and the sum of the raises.
func (c *remedySearch) quotaStepsFor(model int) (steps []ares.Step, sum int) {
	sh := c.entry.Shape
	milli := int64(sh.MinMembers) * int64(max(sh.Request.GPUs*cluster.WholeMilli, sh.Request.Milli))
	for _, short := range sh.Leaf.QuotaShortfalls(model, milli) {
		by := int((short.By + cluster.WholeMilli - 1) / cluster.WholeMilli)
		sum += by
		steps = append(steps, quotaStep(ares.ScopeRef(short.Tenant, short.Queue), short.Resource, by))
	}
	return steps, sum
}

// openModelSteps returns one step for each GPU model that the job cannot use because of a single quota. The step
// raises this quota so that the job can use the model. If several quotas must be raised for a model, the result
// has no step for this model.
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
