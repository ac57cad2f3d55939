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
	"ares": func() Policy { return Policy{Name: "ares", Engine: engine.Default()} },
}

// PolicyNamed is one of the built-in policies.
func PolicyNamed(name string) (Policy, error) {
	make, ok := policies[name]
	if !ok {
		return Policy{}, ares.Errorf(ares.Invalid, "%q is no policy", name).At("policy")
	}
	return make(), nil
}
