package sim

import (
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	_ "github.com/ares-scheduler/ares/engine/cluster/score/baseline" // registers the policies to compare with
	"github.com/ares-scheduler/ares/engine/config"
)

// Policy is the configuration under which a simulation makes decisions.
type Policy struct {
	Name   string
	Engine config.Config
	// Estimate is the kind of runtime estimate that the engine gets for a job.
	Estimate string
	// EstimateError adds a random error to the oracle's estimates. Each estimate is multiplied by
	// e^(EstimateError·N), where N is drawn from a normal distribution with the seed Engine.Seed.
	EstimateError float64
	// CheckpointSeconds is how long a preempted job keeps its devices while it writes its
	// checkpoint.
	CheckpointSeconds int
	// Preemptible makes every job of a trace save checkpoints, so that it may be preempted by a shorter job of its queue.
	Preemptible bool
}

// This map contains the built-in policies by name.
var policies = map[string]func() Policy{
	"ares": func() Policy { return Policy{Engine: config.Default(), Estimate: EstimateForecast} },

	// The default, for traces whose jobs save checkpoints: shorter jobs may preempt them.
	"ares-preemptible": func() Policy {
		return Policy{Engine: config.Default(), Estimate: EstimateForecast, Preemptible: true, CheckpointSeconds: 30}
	},

	// Placement rules.
	"random":     withPlacement(config.PolicyRandom),
	"dotprod":    withPlacement(config.PolicyDotProduct),
	"clustering": withPlacement(config.PolicyClustering),
	"packing":    withPlacement(config.PolicyPacking),
	"bestfit":    withPlacement(config.PolicyBestFit),
	"fgd":        withPlacement(config.PolicyFGD),

	// Queue orders. An oracle knows the real runtime of each job in the trace.
	"fifo":          queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedHold}, ""),
	"fifo-backfill": queueing(config.QueueConfig{Order: config.OrderFIFO}, ""),
	"edf":           queueing(config.QueueConfig{Order: config.OrderDeadline, Blocked: config.BlockedHold}, ""),
	"edf-backfill":  queueing(config.QueueConfig{Order: config.OrderDeadline}, ""),
	"easy":          queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedReserve}, EstimateOracle),
	"sjf":           queueing(config.QueueConfig{Order: config.OrderShortest, Blocked: config.BlockedHold}, EstimateOracle),
	"sjf-backfill":  queueing(config.QueueConfig{Order: config.OrderShortest}, EstimateOracle),
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

// For is the method that adapts a policy to a trace and a seed. If the policy lists no kinds
// of jobs, config.PolicyFGD keeps capacity for the most frequent kinds in the trace. Like the
// authors of FGD, the method uses kinds that together make up 95 % of the trace. The seed is
// used for the random numbers of config.PolicyRandom and of the errors of estimates.
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

// aresTurns returns the policy for jobs that write checkpoints and have unknown runtimes. Under this policy,
// jobs that have used little GPU time come first and preempt other jobs. A job is preempted at most ten times,
// and never in the first five minutes after a restart. A job comes first until it has used 5,000 GPU-seconds.
// The limit of 5,000 GPU-seconds is higher than in the policy tiresias. Long jobs with one GPU are therefore
// not preempted right after their start. docs/reference/performance.md shows its results.
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
