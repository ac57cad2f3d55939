package engine

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// explainer answers questions about waiting jobs. It needs the state alone: what it
// supposes, it makes real for a moment, and puts back.
type explainer struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer
	jobs    *job.Table
	windows *window.Calendar
	core    *core
	round   *round
}

func newExplainer(co *core, t *round) *explainer {
	return &explainer{cfg: &co.cfg, cluster: co.cluster, scorer: co.scorer, jobs: co.jobs, windows: co.windows, core: co, round: t}
}
