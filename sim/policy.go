package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// Policy is how a simulation decides.
type Policy struct {
	Name   string
	Engine config.Config
	// Estimate is what the engine is told of runtimes when a job comes.
	Estimate string
	// EstimateError makes it wrong: each is multiplied by e to the power of a
	// normal draw of this deviation, by Engine.Seed.
	EstimateError float64
	// CheckpointSeconds is how long a job that gives way still holds its devices
	// to save its progress.
	CheckpointSeconds int
}

// policies are those with a name.
var policies = map[string]func() Policy{
	"ares": func() Policy { return Policy{Engine: config.Default()} },

	// Rules for which node a job goes to.
	"random":     placing(config.PolicyRandom),
	"dotprod":    placing(config.PolicyDotProduct),
	"clustering": placing(config.PolicyClustering),
	"packing":    placing(config.PolicyPacking),
	"bestfit":    placing(config.PolicyBestFit),
	"fgd":        placing(config.PolicyFGD),

	// Orders of a queue. What an oracle says is told by the trace.
	"fifo":          queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedHold}, ""),
	"fifo-backfill": queueing(config.QueueConfig{Order: config.OrderFIFO}, ""),
	"edf":           queueing(config.QueueConfig{Order: config.OrderDeadline, Blocked: config.BlockedHold}, ""),
	"edf-backfill":  queueing(config.QueueConfig{Order: config.OrderDeadline}, ""),
	"easy":          queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedReserve}, EstimateOracle),
	"sjf":           queueing(config.QueueConfig{Order: config.OrderShortest, Blocked: config.BlockedHold}, EstimateOracle),
	"srtf":          queueing(config.QueueConfig{Order: config.OrderRemaining, Preempt: true}, EstimateOracle),
	"tiresias":      queueing(config.QueueConfig{Order: config.OrderAttained, Preempt: true}, ""),
	"ares-turns":    turns,
	"qssf":          queueing(config.QueueConfig{Order: config.OrderLeastService, Blocked: config.BlockedHold}, EstimateOracle),
	"qssf-forecast": queueing(config.QueueConfig{Order: config.OrderLeastService, Blocked: config.BlockedHold}, EstimateForecast),
	"easy-forecast": queueing(config.QueueConfig{Order: config.OrderFIFO, Blocked: config.BlockedReserve}, EstimateForecast),
	"qssf-backfill": queueing(config.QueueConfig{Order: config.OrderLeastService}, EstimateOracle),
}

// placing is Ares with another rule for which node a job goes to.
func placing(rule config.PlacementPolicy) func() Policy {
	return func() Policy {
		p := Policy{Engine: config.Default()}
		p.Engine.Placement, p.Engine.Backfill = rule, config.BackfillConfig{} // only which node is compared
		return p
	}
}

// For is the policy for a trace: what engine.PlaceFGD keeps room for is the
// kinds of jobs that make up 95 % of it, as with its authors, unless the policy
// says; and what engine.PlaceRandom and errors of estimates draw, they draw from
// the seed.
func (p Policy) For(t *Trace, seed uint64) Policy {
	if p.Engine.Placement == config.PolicyRandom || p.EstimateError > 0 {
		p.Engine.Seed = int64(seed) //nolint:gosec // any bits will do
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
			p.Engine.Preemption = config.PreemptionConfig{} // their authors know no bounds
		}
		return p
	}
}

// turns is for jobs that save their progress, of which nobody knows how long they
// run: those that had little so far come first, and the others give way to them,
// each at most ten times and never in its first five minutes back. The level is
// not that of tiresias because five thousand GPU-seconds keep long jobs of one
// GPU from being stopped as soon as they have begun: docs/performance.md has what
// others do.
func turns() Policy {
	p := Policy{Engine: config.Default(), CheckpointSeconds: 30}
	p.Engine.Queue = config.QueueConfig{Order: config.OrderAttained, Preempt: true, Attained: 5000}
	p.Engine.Preemption.MaxPreemptions = 10
	return p
}

// PolicyNames are the built-in policies, by name.
func PolicyNames() []string { return slices.Sorted(maps.Keys(policies)) }

// PolicyNamed is one of the built-in policies.
func PolicyNamed(name string) (Policy, error) {
	make, ok := policies[name]
	if !ok {
		return Policy{}, ares.Errorf(ares.Invalid, "%q is no policy: use one of %s", name, strings.Join(PolicyNames(), ", ")).At("policy")
	}
	p := make()
	p.Name = name
	return p, nil
}
