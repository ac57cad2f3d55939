package sim

import (
	_ "github.com/ares-scheduler/ares/engine/cluster/score/baseline" // the policies to compare with

	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// Policy is the configuration that a simulation decides with.
type Policy struct {
	Name   string
	Engine config.Config
	// Estimate is the kind of runtime estimate that the engine gets for a job.
	Estimate string
	// EstimateError adds an error to an oracle: each estimate is multiplied by
	// e^(EstimateError·N), where N is a normal draw seeded by Engine.Seed.
	EstimateError float64
	// CheckpointSeconds is how long a preempted job still holds its devices to
	// write its checkpoint.
	CheckpointSeconds int
}

// policies are the built-in policies.
var policies = map[string]func() Policy{
	"ares": func() Policy { return Policy{Engine: config.Default()} },

	// Placement rules.
	"random":     withPlacement(config.PolicyRandom),
	"dotprod":    withPlacement(config.PolicyDotProduct),
	"clustering": withPlacement(config.PolicyClustering),
	"packing":    withPlacement(config.PolicyPacking),
	"bestfit":    withPlacement(config.PolicyBestFit),
	"fgd":        withPlacement(config.PolicyFGD),

	// Queue orders. An oracle knows the runtimes of the trace.
	"fifo":          queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedHold}, ""),
	"fifo-backfill": queueing(config.QueueConfig{Order: config.OrderFIFO}, ""),
	"edf":           queueing(config.QueueConfig{Order: config.OrderDeadline, Blocked: config.BlockedHold}, ""),
	"edf-backfill":  queueing(config.QueueConfig{Order: config.OrderDeadline}, ""),
	"easy":          queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedReserve}, EstimateOracle),
	"sjf":           queueing(config.QueueConfig{Order: config.OrderShortest, Blocked: config.BlockedHold}, EstimateOracle),
	"srtf":          queueing(config.QueueConfig{Order: config.OrderRemaining, Preempt: true}, EstimateOracle),
	"tiresias":      queueing(config.QueueConfig{Order: config.OrderAttained, Preempt: true}, ""),
	"ares-turns":    aresTurns,
	"qssf":          queueing(config.QueueConfig{Order: config.OrderLeastService, Blocked: config.BlockedHold}, EstimateOracle),
	"qssf-forecast": queueing(config.QueueConfig{Order: config.OrderLeastService, Blocked: config.BlockedHold}, EstimateForecast),
	"easy-forecast": queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedReserve}, EstimateForecast),
	"qssf-backfill": queueing(config.QueueConfig{Order: config.OrderLeastService}, EstimateOracle),
}

// withPlacement returns the default policy with another placement rule.
func withPlacement(rule config.PlacementPolicy) func() Policy {
	return func() Policy {
		p := Policy{Engine: config.Default()}
		p.Engine.Placement, p.Engine.Backfill = rule, config.BackfillConfig{} // only placement is compared
		return p
	}
}

// For returns the policy for a trace and a seed. config.PolicyFGD keeps capacity
// for the kinds of jobs that make up 95 % of the trace, as its authors do,
// unless the policy sets other ones. config.PolicyRandom and errors of estimates
// draw from the seed.
func (p Policy) For(t *Trace, seed uint64) Policy {
	if p.Engine.Placement == config.PolicyRandom || p.EstimateError > 0 {
		p.Engine.Seed = int64(seed) //nolint:gosec // any bits are a valid seed
	}
	if p.Engine.Placement == config.PolicyFGD && len(p.Engine.Typical) == 0 {
		p.Engine.Typical = t.Typical(95)
	}
	return p
}

func queueing(q config.QueueConfig, estimate string) func() Policy {
	return func() Policy {
		p := Policy{Engine: config.Default(), Estimate: estimate}
		p.Engine.Queue, p.Engine.Backfill = q, config.BackfillConfig{}
		if q.Preempt {
			p.Engine.Preemption = config.PreemptionConfig{} // the published policies have no bounds on preemption
		}
		return p
	}
}

// aresTurns returns the policy for jobs that write checkpoints and have unknown
// runtimes: jobs with little GPU time so far come first and preempt others,
// each at most ten times and never in its first five minutes after a restart.
// Its level is higher than that of tiresias: 5,000 GPU-seconds keep long jobs
// of one GPU from being preempted right after their start. docs/performance.md
// has the results of other values.
func aresTurns() Policy {
	p := Policy{Engine: config.Default(), CheckpointSeconds: 30}
	p.Engine.Queue = config.QueueConfig{Order: config.OrderAttained, Preempt: true, Attained: 5000}
	p.Engine.Preemption.MaxPreemptions = 10
	return p
}

// PolicyNames returns the sorted names of the built-in policies.
func PolicyNames() []string { return slices.Sorted(maps.Keys(policies)) }

// PolicyNamed returns a built-in policy.
func PolicyNamed(name string) (Policy, error) {
	make, ok := policies[name]
	if !ok {
		return Policy{}, ares.Errorf(ares.Invalid, "unknown policy %q: use one of %s", name, strings.Join(PolicyNames(), ", ")).At("policy")
	}
	p := make()
	p.Name = name
	return p, nil
}
