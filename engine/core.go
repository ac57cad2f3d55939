package engine

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

// applyEvents takes events in, all of them before anybody looks.
func (co *core) applyEvents(events []ares.Event) {
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
	co.jobs.Requeue()
}

func (co *core) applyEvent(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := co.jobs.Entry(ev.Job.ID)
		co.jobs.UpdateEntry(e, func() { e.Job = ev.Job })
	case ev.Run != nil:
		e := co.jobs.Entry(ev.Run.Job)
		co.jobs.UpdateEntry(e, func() { e.Run = &ev.Run.Run })
		if !ev.Run.Seen.IsZero() {
			if co.jobs.DelaysLearned == nil {
				co.jobs.DelaysLearned = map[*job.Entry]time.Time{}
			}
			co.jobs.DelaysLearned[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := co.cluster.Node(ev.Node.ID)
		co.jobs.SetNodeRecord(n, ev.Node)
		co.cluster.MarkDirty(n)
	case ev.Session != nil:
		n := co.cluster.Node(ev.Session.Node)
		n.Session, n.GainedRoom, co.cluster.CapacityStale = ev.Session, true, true
		co.cluster.MarkDirty(n)
	case ev.Cordon != nil:
		n := co.cluster.Node(ev.Cordon.Node)
		n.Cordon = ev.Cordon
		co.cluster.MarkDirty(n)
	case ev.Score != nil:
		co.cluster.SetNodeScore(co.cluster.Node(ev.Score.Node), ev.Score)
	case ev.Tenant != nil:
		co.jobs.Tenant(ev.Tenant.ID).Record = ev.Tenant
		co.jobs.Queues.SetTenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		co.jobs.Queues.SetQueue(ev.Queue)
	case ev.Reservation != nil:
		co.windows.SetReservation(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		co.jobs.SetArchivedUsage(*ev.Usage)
	case ev.Topology != nil:
		co.cluster.SetTopology(ev.Topology)
	case ev.Forecast != nil:
		co.jobs.SetForecast(ev.Forecast.Job, ev.Forecast)
	case ev.Gone.Kind != "":
		co.applyDeletion(ev.Gone)
	}
}

// applyDeletion drops what was deleted. The devices of a job that goes are free: the
// store archives a job only when they are.
func (co *core) applyDeletion(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := co.jobs.EntryByID[ares.JobID(g.ID)]; e != nil {
			co.jobs.UpdateEntry(e, func() { e.Job, e.Run, e.Forecast = nil, nil, nil })
		}
	case ares.KindRun:
		if e := co.jobs.EntryByID[ares.JobID(g.ID)]; e != nil {
			co.jobs.UpdateEntry(e, func() { e.Run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		co.jobs.ApplyNodeDeletion(g)
	case ares.KindTenant:
		if t := co.jobs.Tenants[g.ID]; t != nil {
			t.Record = nil
		}
		co.jobs.Queues.SetTenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.jobs.Queues.DropQueue(tenant, name)
	case ares.KindReservation:
		co.windows.SetReservation(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.jobs.SetArchivedUsage(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		co.cluster.SetTopology(&ares.Topology{})
	case ares.KindForecast:
		co.jobs.SetForecast(ares.JobID(g.ID), nil)
	case ares.KindProgress, ares.KindPolicy: // nothing is decided by them
	}
}

// refresh brings everything that is derived from the records up to date.
func (co *core) refresh() {
	co.scorer.RefreshMix()
	before := co.cluster.Capacity
	co.cluster.RefreshIndex()
	co.scorer.SyncLayout()
	if co.cluster.Capacity != before {
		co.jobs.Queues.SetCapacity(co.cluster.Capacity)
	}
}
