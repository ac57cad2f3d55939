package engine

import (
	"strings"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
)

// State is everything a decision may see, with what Decide and Explain work with.
// It has one owner: see the package comment.
type State struct {
	core    *core
	round   *round
	explain *explainer
}

// New returns a state that knows nothing, at revision 0, with the defaults.
func New() *State { return NewWith(config.Default()) }

// NewWith returns a state that knows nothing, at revision 0.
func NewWith(cfg config.Config) *State {
	s := &State{core: newCore(cfg)}
	s.round = newRound(s.core)
	s.explain = newExplainer(s.core, s.round)
	return s
}

// Apply brings the state to the batch's revision. A batch the state has seen
// is no change; one with Reset replaces everything, whatever its revision. The
// state keeps what the events point to: it must not change afterwards.
func (s *State) Apply(b ares.Batch) {
	if b.Reset {
		*s = *NewWith(s.core.cfg)
	} else if b.Revision <= s.core.revision {
		return
	}
	s.core.apply(b)
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
	co.jobs.requeue()
}

func (co *core) applyEvent(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := co.jobs.entry(ev.Job.ID)
		co.jobs.updateEntry(e, func() { e.job = ev.Job })
	case ev.Run != nil:
		e := co.jobs.entry(ev.Run.Job)
		co.jobs.updateEntry(e, func() { e.run = &ev.Run.Run })
		if !ev.Run.Seen.IsZero() {
			if co.jobs.delaysLearned == nil {
				co.jobs.delaysLearned = map[*entry]time.Time{}
			}
			co.jobs.delaysLearned[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := co.cluster.Node(ev.Node.ID)
		co.jobs.setNodeRecord(n, ev.Node)
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
		co.jobs.tenant(ev.Tenant.ID).record = ev.Tenant
		co.jobs.queues.SetTenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		co.jobs.queues.SetQueue(ev.Queue)
	case ev.Reservation != nil:
		co.windows.setReservation(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		co.jobs.setArchivedUsage(*ev.Usage)
	case ev.Topology != nil:
		co.cluster.SetTopology(ev.Topology)
	case ev.Forecast != nil:
		co.jobs.setForecast(ev.Forecast.Job, ev.Forecast)
	case ev.Gone.Kind != "":
		co.applyDeletion(ev.Gone)
	}
}

// applyDeletion drops what was deleted. The devices of a job that goes are free: the
// store archives a job only when they are.
func (co *core) applyDeletion(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := co.jobs.entryByID[ares.JobID(g.ID)]; e != nil {
			co.jobs.updateEntry(e, func() { e.job, e.run, e.forecast = nil, nil, nil })
		}
	case ares.KindRun:
		if e := co.jobs.entryByID[ares.JobID(g.ID)]; e != nil {
			co.jobs.updateEntry(e, func() { e.run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		co.jobs.applyNodeDeletion(g)
	case ares.KindTenant:
		if t := co.jobs.tenants[g.ID]; t != nil {
			t.record = nil
		}
		co.jobs.queues.SetTenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.jobs.queues.DropQueue(tenant, name)
	case ares.KindReservation:
		co.windows.setReservation(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		co.jobs.setArchivedUsage(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		co.cluster.SetTopology(&ares.Topology{})
	case ares.KindForecast:
		co.jobs.setForecast(ares.JobID(g.ID), nil)
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
		co.jobs.queues.SetCapacity(co.cluster.Capacity)
	}
}
