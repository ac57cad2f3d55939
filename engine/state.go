package engine

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/cycle"
	"github.com/ares-scheduler/ares/engine/explain"
	"github.com/ares-scheduler/ares/engine/state"
)

// State holds everything that a cycle may read, and the workspace of Decide and Explain. A State is not safe
// for concurrent use; see the package comment.
type State struct {
	core    *state.State       // the records and their indexes
	round   *cycle.Round       // its changes are undone at the end of every cycle and question
	explain *explain.Explainer // uses core and round
}

// New returns an empty state at revision 0 with the default configuration.
func New() *State { return NewWith(config.Default()) }

// NewWith returns an empty state at revision 0.
func NewWith(cfg config.Config) *State {
	s := &State{core: state.New(cfg)}
	s.round = cycle.NewRound(s.core)
	s.explain = explain.NewExplainer(s.core, s.round)
	return s
}

// Apply brings the state to the revision of the batch. A batch changes nothing if the state already has its
// revision or a later one. A batch with Reset replaces all records, regardless of its revision. The state keeps the
// records that the events point to, so the caller must not change them afterwards.
func (s *State) Apply(b ares.Batch) {
	if b.Reset {
		*s = *NewWith(s.core.Cfg)
	} else if b.Revision <= s.core.Revision {
		return
	}
	s.core.Apply(b)
}
