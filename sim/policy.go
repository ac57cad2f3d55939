package sim

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Policy is how a simulation decides.
type Policy struct {
	Name   string
	Engine engine.Config
}

// policies are those with a name.
var policies = map[string]func() Policy{
	"ares":       func() Policy { return Policy{Name: "ares", Engine: engine.Default()} },
	"random":     placing(engine.PlaceRandom),
	"dotprod":    placing(engine.PlaceDotProduct),
	"clustering": placing(engine.PlaceClustering),
	"packing":    placing(engine.PlacePacking),
	"bestfit":    placing(engine.PlaceBestFit),
	"fgd":        placing(engine.PlaceFGD),
}

// placing is Ares with another rule for which node a job goes to.
func placing(rule engine.Placement) func() Policy {
	return func() Policy {
		p := Policy{Name: string(rule), Engine: engine.Default()}
		p.Engine.Placement = rule
		return p
	}
}

// For is the policy for a trace: what engine.PlaceFGD keeps room for is the
// kinds of jobs that make up 95 % of it, as with its authors, unless the policy
// says; and what engine.PlaceRandom draws, it draws from the seed.
func (p Policy) For(t *Trace, seed uint64) Policy {
	if p.Engine.Placement == engine.PlaceRandom {
		p.Engine.Seed = int64(seed)
	}
	if p.Engine.Placement == engine.PlaceFGD && len(p.Engine.Typical) == 0 {
		p.Engine.Typical = t.Typical(95)
	}
	return p
}

// PolicyNamed is one of the built-in policies.
func PolicyNamed(name string) (Policy, error) {
	make, ok := policies[name]
	if !ok {
		return Policy{}, ares.Errorf(ares.Invalid, "%q is no policy", name).At("policy")
	}
	return make(), nil
}
