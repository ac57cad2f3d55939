package sim

import (
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Policy is how a simulation decides.
type Policy struct {
	Name   string
	Engine engine.Config
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
	"ares": func() Policy { return Policy{Engine: engine.Default()} },

	// Rules for which node a job goes to.
	"random":     withPlacement(engine.PlaceRandom),
	"dotprod":    withPlacement(engine.PlaceDotProduct),
	"clustering": withPlacement(engine.PlaceClustering),
	"packing":    withPlacement(engine.PlacePacking),
	"bestfit":    withPlacement(engine.PlaceBestFit),
	"fgd":        withPlacement(engine.PlaceFGD),

	// Orders of a queue. What an oracle says is told by the trace.
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

// withPlacement is Ares with another rule for which node a job goes to.
func withPlacement(rule engine.Placement) func() Policy {
	return func() Policy {
		p := Policy{Engine: engine.Default()}
		p.Engine.Placement, p.Engine.Reserving = rule, engine.Reserving{} // only which node is compared
		return p
	}
}

// For is the policy for a trace: what engine.PlaceFGD keeps room for is the
// kinds of jobs that make up 95 % of it, as with its authors, unless the policy
// says; and what engine.PlaceRandom and errors of estimates draw, they draw from
// the seed.
func (p Policy) For(t *Trace, seed uint64) Policy {
	if p.Engine.Placement == engine.PlaceRandom || p.EstimateError > 0 {
		p.Engine.Seed = int64(seed) //nolint:gosec // any bits will do
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
			p.Engine.Yielding = engine.Yielding{} // their authors know no bounds
		}
		return p
	}
}

// aresTurns is for jobs that save their progress, of which nobody knows how long they
// run: those that had little so far come first, and the others give way to them,
// each at most ten times and never in its first five minutes back. The level is
// not that of tiresias because five thousand GPU-seconds keep long jobs of one
// GPU from being stopped as soon as they have begun: docs/performance.md has what
// others do.
func aresTurns() Policy {
	p := Policy{Engine: engine.Default(), CheckpointSeconds: 30}
	p.Engine.Queueing = engine.Queueing{Order: engine.OrderAttained, Yield: true, Attained: 5000}
	p.Engine.Yielding.MaxYields = 10
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
