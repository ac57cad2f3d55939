package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ares-scheduler/ares/engine/cluster"

	ares "github.com/ares-scheduler/ares"
)

// limitStep returns the step that raises a limit of a tenant or of one of its queues.
func limitStep(tenant, queue, limit string, by int) ares.Step {
	target, whose := tenant, "tenant "+tenant
	if queue != "" {
		target = ares.QueueID(tenant, queue)
		whose = "queue " + target
	}
	return ares.Step{Kind: ares.StepLimit, Target: target, Field: limit, Amount: by, Text: fmt.Sprintf("raise %s of %s by %d", limit, whose, by)}
}

// quotaStep returns the step that raises the quota of a tenant or queue for a model.
func quotaStep(target, model string, by int) ares.Step {
	return ares.Step{
		Kind: ares.StepQuota, Target: target, Field: model, Amount: by,
		Text: fmt.Sprintf("raise the quota of %s by %s", target, countText(by, strings.TrimSpace(model+" GPU"))),
	}
}

// withAmount returns the step with another amount and text.
func withAmount(step ares.Step, by int) ares.Step {
	if step.Kind == ares.StepQuota {
		return quotaStep(step.Target, step.Field, by)
	}
	tenant, queue, _ := strings.Cut(step.Target, "/")
	return limitStep(tenant, queue, step.Field, by)
}

// maxRaise bounds the raise of a limit: this many times the amount that the job needs
// by itself, since jobs ahead of it use the same limit.
const maxRaise = 16

// raiseFurther raises a limit or quota by more than the job alone needs, because jobs
// ahead of it use the first part. A binary search finds the smallest amount.
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

// quotaSteps returns the quotas to raise where the quotas of every model are too
// small: those of the model with the fewest steps, then the smallest sum.
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

// quotaStepsFor returns the quotas to raise so that the job gets GPUs of a model, and
// the sum of the amounts.
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

// openModelSteps returns, for each model that quotas exclude, the raise of one quota
// that admits it. A model that needs several raises has none.
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
