package engine

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// core is the jobs, nodes, sessions, cordons, tenants, queues, reservations and the
// topology as of one revision of the store, with the accounts of what is taken kept
// up to date.
type core struct {
	cfg      config.Config
	revision int64
	cluster  *cluster.Cluster
	scorer   *score.Scorer
	jobs     *job.Table
	windows  *window.Calendar
}

func newCore(cfg config.Config) *core {
	co := &core{cfg: cfg}
	queues := queue.New[*job.Entry](queue.Config{AgeingStep: cfg.AgeingStep, HalfLife: cfg.HalfLife, BySortKey: cfg.Queue.Order != config.OrderAged})
	co.cluster = cluster.NewCluster(&co.cfg, queues.ModelIndex)
	co.scorer = score.NewScorer(&co.cfg, co.cluster)
	co.jobs = job.NewTable(&co.cfg, queues, co.cluster, co.scorer)
	co.windows = &window.Calendar{Cluster: co.cluster, Jobs: co.jobs}
	return co
}

// apply takes in a whole revision.
func (co *core) apply(b ares.Batch) {
	co.revision, co.jobs.At = b.Revision, b.At
	co.scorer.Demand.BeginWindow(b.Revision)
	co.applyEvents(b.Events)
	co.scorer.AdvanceHorizon(b.Revision, len(co.jobs.EntryByID), co.jobs.Asks())
}
