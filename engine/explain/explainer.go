// Package explain answers questions about waiting jobs: why a job waits, when it will
// start, which change would start it now, and what would happen to a job if it were
// submitted.
//
// Reading order: Explainer and its method Explain (explain.go); the blockers and the
// diagnosis of the nodes; queuePosition; etaOf (eta.go); the search for remedies
// (remedies.go), which simulates its steps (simulate.go); WhatIf (whatif.go).
//
// The reasons why a node is ruled out, their texts and the fields that a remedy may
// drop are rows of cluster.Filters.
//
// The package decides nothing: it runs the cycle of package cycle and undoes it. It
// must not name jobs of other tenants.
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

// Explainer answers questions about waiting jobs. Every question needs exclusive
// access to the state: the explainer applies the changes it simulates, and undoes
// them before it returns.
type Explainer struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer
	jobs    *job.Table
	windows *window.Calendar
	core    *state.State
	round   *cycle.Round
}

// NewExplainer returns an explainer of a state that simulates cycles with t.
func NewExplainer(co *state.State, t *cycle.Round) *Explainer {
	return &Explainer{cfg: &co.Cfg, cluster: co.Cluster, scorer: co.Scorer, jobs: co.Jobs, windows: co.Windows, core: co, round: t}
}
