package state

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/window"
)

// State holds the records of the store as of one revision, and the accounts that are
// derived from them. Only events change the records. Refresh must run before a decision
// reads the derived data.
type State struct {
	Cfg      config.Config
	Revision int64 // of the last batch applied
	Cluster  *cluster.Cluster
	Scorer   *score.Scorer
	Jobs     *job.Table
	Windows  *window.Calendar
}

// New returns an empty state at revision 0.
func New(cfg config.Config) *State {
	s := &State{Cfg: cfg}
	queues := queue.New[*job.Entry](queue.Config{AgeingStep: cfg.AgeingStep, HalfLife: cfg.HalfLife, BySortKey: cfg.Queue.Order != config.OrderAged})
	s.Cluster = cluster.New(&s.Cfg, queues.ModelIndex)
	s.Scorer = score.New(&s.Cfg, s.Cluster)
	s.Jobs = job.NewTable(&s.Cfg, queues, s.Cluster, s.Scorer)
	s.Windows = &window.Calendar{Cluster: s.Cluster, Jobs: s.Jobs}
	return s
}

// Refresh updates everything that is derived from the records: the index of nodes, the
// workload mix, the free capacity and the cluster's capacity in the queues.
func (s *State) Refresh() {
	before := s.Cluster.Capacity
	s.Cluster.RefreshIndex()
	s.Scorer.RefreshMix() // depends on the number of devices of each model
	s.Scorer.SyncLayout()
	if s.Cluster.Capacity != before {
		s.Jobs.Queues.SetCapacity(s.Cluster.Capacity)
	}
}
