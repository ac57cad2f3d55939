// Package explain answers questions about waiting jobs: why a job waits, when it will
// start, which change would start it now, and what would happen to a job if it were
// submitted.
//
// Read explain.go first, then blockers.go, diagnosis.go, position.go, eta.go, remedies.go,
// simulate.go and whatif.go.
//
// The table cluster.Filters lists the reasons that exclude a node, with their texts and
// the job fields that a remedy may drop.
//
// The package makes no decisions. To answer a question, package explain runs a cycle with package cycle and undoes
// all changes. Explanations must not name jobs of other tenants.
package explain

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/cycle"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/state"
	"github.com/ares-scheduler/ares/engine/window"
)

// Explainer answers questions about waiting jobs. Every method needs exclusive access to the state, because the
// explainer applies simulated changes to the state and undoes them before it returns.
type Explainer struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer
	jobs    *job.Table
	windows *window.Calendar
	core    *state.State
	round   *cycle.Round
}

// NewExplainer returns an explainer for a state. The explainer uses the round t to simulate cycles.
func NewExplainer(co *state.State, t *cycle.Round) *Explainer {
	return &Explainer{cfg: &co.Cfg, cluster: co.Cluster, scorer: co.Scorer, jobs: co.Jobs, windows: co.Windows, core: co, round: t}
}
