package sim

import (
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Policy is the configuration that a simulation decides with.
type Policy struct {
	Name   string
	Engine engine.Config
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
	"ares": func() Policy { return Policy{Engine: engine.Default()} },

	// Placement rules.
	"random":     withPlacement(engine.PlaceRandom),
	"dotprod":    withPlacement(engine.PlaceDotProduct),
	"clustering": withPlacement(engine.PlaceClustering),
	"packing":    withPlacement(engine.PlacePacking),
	"bestfit":    withPlacement(engine.PlaceBestFit),
	"fgd":        withPlacement(engine.PlaceFGD),

	// Queue orders. An oracle knows the runtimes of the trace.
	"fifo":          queueing(engine.Queueing{Order: engine.OrderFIFO, Blocked: engine.BlockedHold}, ""),
	"fifo-backfill": queueing(engine.Queueing{Order: engine.OrderFIFO}, ""),
	"edf":           queueing(engine.Queueing{Order: engine.OrderDeadline, Blocked: engine.BlockedHold}, ""),
	"edf-backfill":  queueing(engine.Queueing{Order: engine.OrderDeadline}, ""),
	"easy":          queueing(engine.Queueing{Order: engine.OrderFIFO, Blocked: engine.BlockedReserve}, EstimateOracle),
	"sjf":           queueing(engine.Queueing{Order: engine.OrderShortest, Blocked: engine.BlockedHold}, EstimateOracle),
	"srtf":          queueing(engine.Queueing{Order: engine.OrderRemaining, Yield: true}, EstimateOracle),
	"tiresias":      queueing(engine.Queueing{Order: engine.OrderAttained, Yield: true}, ""),
	"ares-turns":    aresTurns,
	"qssf":          queueing(engine.Queueing{Order: engine.OrderLeastService, Blocked: engine.BlockedHold}, EstimateOracle),
	"qssf-forecast": queueing(engine.Queueing{Order: engine.OrderLeastService, Blocked: engine.BlockedHold}, EstimateForecast),
	"easy-forecast": queueing(engine.Queueing{Order: engine.OrderFIFO, Blocked: engine.BlockedReserve}, EstimateForecast),
	"qssf-backfill": queueing(engine.Queueing{Order: engine.OrderLeastService}, EstimateOracle),
}

// withPlacement returns the default policy with another placement rule.
func withPlacement(rule engine.Placement) func() Policy {
	return func() Policy {
		p := Policy{Engine: engine.Default()}
		p.Engine.Placement, p.Engine.Reserving = rule, engine.Reserving{} // only placement is compared
		return p
	}
}

// For returns the policy for a trace and a seed. engine.PlaceFGD keeps capacity
// for the kinds of jobs that make up 95 % of the trace, as its authors do,
// unless the policy sets other ones. engine.PlaceRandom and errors of estimates
// draw from the seed.
func (p Policy) For(t *Trace, seed uint64) Policy {
	if p.Engine.Placement == engine.PlaceRandom || p.EstimateError > 0 {
		p.Engine.Seed = int64(seed) //nolint:gosec // any bits are a valid seed
	}
	if p.Engine.Placement == engine.PlaceFGD && len(p.Engine.Typical) == 0 {
		p.Engine.Typical = t.Typical(95)
	}
	return p
}

func queueing(q engine.Queueing, estimate string) func() Policy {
	return func() Policy {
		p := Policy{Engine: engine.Default(), Estimate: estimate}
		p.Engine.Queueing, p.Engine.Reserving = q, engine.Reserving{}
		if q.Yield {
			p.Engine.Yielding = engine.Yielding{} // the published policies have no bounds on preemption
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
	p := Policy{Engine: engine.Default(), CheckpointSeconds: 30}
	p.Engine.Queueing = engine.Queueing{Order: engine.OrderAttained, Yield: true, Attained: 5000}
	p.Engine.Yielding.MaxYields = 10
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
