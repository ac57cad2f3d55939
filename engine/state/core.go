package state

import (
	"strings"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
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
	co := &State{Cfg: cfg}
	queues := queue.New[*job.Entry](queue.Config{AgeingStep: cfg.AgeingStep, HalfLife: cfg.HalfLife, BySortKey: cfg.Queue.Order != config.OrderAged})
	co.Cluster = cluster.New(&co.Cfg, queues.ModelIndex)
	co.Scorer = score.New(&co.Cfg, co.Cluster)
	co.Jobs = job.NewTable(&co.Cfg, queues, co.Cluster, co.Scorer)
	co.Windows = &window.Calendar{Cluster: co.Cluster, Jobs: co.Jobs}
	return co
}

// Apply takes in a whole revision.
func (co *State) Apply(b ares.Batch) {
	co.Revision, co.Jobs.At = b.Revision, b.At
	co.Scorer.Demand.BeginWindow(b.Revision)
	co.ApplyEvents(b.Events)
	co.Scorer.AdvanceHorizon(b.Revision, len(co.Jobs.EntryByID), co.Jobs.Asks())
}

// ApplyEvents takes events in, all of them before anybody looks.
func (co *State) ApplyEvents(events []ares.Event) {
	// Nodes first: what a seat counts depends on the model of its devices.
	for i := range events {
		if events[i].Node != nil {
			co.applyEvent(&events[i])
		}
	}
	for i := range events {
		if events[i].Node == nil {
			co.applyEvent(&events[i])
		}
	}
	co.Jobs.Requeue()
}

func (co *State) applyEvent(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := co.Jobs.Entry(ev.Job.ID)
		co.Jobs.UpdateEntry(e, func() { e.Job = ev.Job })
	case ev.Run != nil:
		e := co.Jobs.Entry(ev.Run.Job)
		co.Jobs.UpdateEntry(e, func() { e.Run = &ev.Run.Run })
		if !ev.Run.Seen.IsZero() {
			if co.Jobs.DelaysLearned == nil {
				co.Jobs.DelaysLearned = map[*job.Entry]time.Time{}
			}
			co.Jobs.DelaysLearned[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := co.Cluster.Node(ev.Node.ID)
		co.Jobs.SetNodeRecord(n, ev.Node)
		co.Cluster.MarkDirty(n)
	case ev.Session != nil:
		n := co.Cluster.Node(ev.Session.Node)
		n.Session, n.GainedRoom, co.Cluster.Stale.Capacity = ev.Session, true, true
		co.Cluster.MarkDirty(n)
	case ev.Cordon != nil:
		n := co.Cluster.Node(ev.Cordon.Node)
		n.Cordon = ev.Cordon
		co.Cluster.MarkDirty(n)
	case ev.Score != nil:
		co.Cluster.SetNodeScore(co.Cluster.Node(ev.Score.Node), ev.Score)
	case ev.Tenant != nil:
		co.Jobs.Tenant(ev.Tenant.ID).Record = ev.Tenant
		co.Jobs.Queues.SetTenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		co.Jobs.Queues.SetQueue(ev.Queue)
	case ev.Reservation != nil:
		co.Windows.SetReservation(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		co.Jobs.SetArchivedUsage(*ev.Usage)
	case ev.Topology != nil:
		co.Cluster.SetTopology(ev.Topology)
	case ev.Forecast != nil:
		co.Jobs.SetForecast(ev.Forecast.Job, ev.Forecast)
	case ev.Gone.Kind != "":
		co.applyDeletion(ev.Gone)
	}
}

// applyDeletion drops what was deleted. The devices of a job that goes are free: the
// store archives a job only when they are.
func (co *State) applyDeletion(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := co.Jobs.EntryByID[ares.JobID(g.ID)]; e != nil {
			co.Jobs.UpdateEntry(e, func() { e.Job, e.Run, e.Forecast = nil, nil, nil })
		}
	case ares.KindRun:
		if e := co.Jobs.EntryByID[ares.JobID(g.ID)]; e != nil {
			co.Jobs.UpdateEntry(e, func() { e.Run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		co.Jobs.ApplyNodeDeletion(g)
	case ares.KindTenant:
		if t := co.Jobs.Tenants[g.ID]; t != nil {
			t.Record = nil
		}
		co.Jobs.Queues.SetTenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.Jobs.Queues.DropQueue(tenant, name)
	case ares.KindReservation:
		co.Windows.SetReservation(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.Jobs.SetArchivedUsage(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		co.Cluster.SetTopology(&ares.Topology{})
	case ares.KindForecast:
		co.Jobs.SetForecast(ares.JobID(g.ID), nil)
	case ares.KindProgress, ares.KindPolicy: // nothing is decided by them
	}
}

// Refresh brings everything that is derived from the records up to date.
func (co *State) Refresh() {
	co.Scorer.RefreshMix()
	before := co.Cluster.Capacity
	co.Cluster.RefreshIndex()
	co.Scorer.SyncLayout()
	if co.Cluster.Capacity != before {
		co.Jobs.Queues.SetCapacity(co.Cluster.Capacity)
	}
}
