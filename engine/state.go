package engine

import (
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/cycle"
	"github.com/ares-scheduler/ares/engine/explain"
	"github.com/ares-scheduler/ares/engine/state"

	ares "github.com/ares-scheduler/ares"
)

// State is everything a decision may see, with what Decide and Explain work with.
// It has one owner: see the package comment.
type State struct {
	core    *state.State
	round   *cycle.Round
	explain *explain.Explainer
}

// New returns a state that knows nothing, at revision 0, with the defaults.
func New() *State { return NewWith(config.Default()) }

// NewWith returns a state that knows nothing, at revision 0.
func NewWith(cfg config.Config) *State {
	s := &State{core: state.New(cfg)}
	s.round = cycle.NewRound(s.core)
	s.explain = explain.NewExplainer(s.core, s.round)
	return s
}

// Apply brings the state to the batch's revision. A batch the state has seen
// is no change; one with Reset replaces everything, whatever its revision. The
// state keeps what the events point to: it must not change afterwards.
func (s *State) Apply(b ares.Batch) {
	if b.Reset {
		*s = *NewWith(s.core.Cfg)
	} else if b.Revision <= s.core.Revision {
		return
	}
	s.core.Apply(b)
}
