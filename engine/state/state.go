package state

import (
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/window"
)

// State is the jobs, nodes, sessions, cordons, tenants, queues, reservations and the
// topology as of one revision of the store, with the accounts of what is taken kept
// up to date.
type State struct {
	Cfg      config.Config
	Revision int64
	Cluster  *cluster.Cluster
	Scorer   *score.Scorer
	Jobs     *job.Table
	Windows  *window.Calendar
}

func New(cfg config.Config) *State {
	s := &State{Cfg: cfg}
	queues := queue.New[*job.Entry](queue.Config{AgeingStep: cfg.AgeingStep, HalfLife: cfg.HalfLife, BySortKey: cfg.Queue.Order != config.OrderAged})
	s.Cluster = cluster.New(&s.Cfg, queues.ModelIndex)
	s.Scorer = score.New(&s.Cfg, s.Cluster)
	s.Jobs = job.NewTable(&s.Cfg, queues, s.Cluster, s.Scorer)
	s.Windows = &window.Calendar{Cluster: s.Cluster, Jobs: s.Jobs}
	return s
}

// Refresh brings everything that is derived from the records up to date.
func (s *State) Refresh() {
	s.Scorer.RefreshMix()
	before := s.Cluster.Capacity
	s.Cluster.RefreshIndex()
	s.Scorer.SyncLayout()
	if s.Cluster.Capacity != before {
		s.Jobs.Queues.SetCapacity(s.Cluster.Capacity)
	}
}
