package control

import (
	"sync"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Fleet tells what can never run on the nodes this server knows, whatever their
// present state and load.
type Fleet struct {
	mu    sync.Mutex
	fleet *engine.StaticFeasibility
}

// NewFleet makes a fleet that follows a view.
func NewFleet(view *View) *Fleet {
	f := &Fleet{fleet: engine.NewStaticFeasibility()}
	view.Feed(func(b ares.Batch) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fleet.Apply(b)
	})
	return f
}

func (f *Fleet) never(spec ares.Spec) *ares.Refusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fleet.Infeasible(spec)
}

func (f *Fleet) split(spec ares.Spec) (ares.Spec, *ares.Refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fleet.Split(spec)
}

// fit refuses a job that no node, or all together, could ever hold. One that
// asks for more GPUs than a node has, for a gang, and does not say of how many
// members, is split into equal ones, as few as will do; what it asks for in all
// stays the same.
func (d *Desk) fit(said *ares.Spec) error {
	if d.Fleet == nil {
		return nil
	}
	never := d.Fleet.never(said.WithDefaults())
	if never == nil {
		return nil
	}
	splits := said.Gang != nil && *said.Gang && said.Members == 0 && said.GPUs > 1
	if splits {
		if parts, still := d.Fleet.split(*said); still == nil {
			*said = parts
			return nil
		}
	}
	field := "gpu_count"
	if said.GPUs == 0 {
		field = ""
	}
	how := ""
	if splits {
		how = ", nor split into equal members"
	}
	return ares.Errorf(ares.Refused, "the job can never run on the nodes there are%s: %s", how, never).At(field)
}
