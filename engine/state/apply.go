package state

import (
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
)

// Apply brings the state to the revision of a batch.
func (s *State) Apply(b ares.Batch) {
	s.Revision, s.Jobs.At = b.Revision, b.At
	s.Scorer.Demand.BeginWindow(b.Revision)
	s.ApplyEvents(b.Events)
	s.Scorer.AdvanceHorizon(b.Revision, len(s.Jobs.EntryByID), s.Jobs.Asks())
}

// ApplyEvents applies the events of one revision and requeues the jobs that changed.
func (s *State) ApplyEvents(events []ares.Event) {
	// Apply nodes first, because the weight of a seat in shares depends on the model of its devices.
	for i := range events {
		if events[i].Node != nil {
			s.applyEvent(&events[i])
		}
	}
	for i := range events {
		if events[i].Node == nil {
			s.applyEvent(&events[i])
		}
	}
	s.Jobs.Requeue()
}

// applyEvent stores one record. The state keeps the record that the event points to.
func (s *State) applyEvent(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		e := s.Jobs.Entry(ev.Job.ID)
		s.Jobs.UpdateEntry(e, func() {
			if e.Job = ev.Job; e.Run != nil {
				e.Job = e.Job.Updated(e.Run.Updated)
			}
		})
	case ev.Run != nil:
		e := s.Jobs.Entry(ev.Run.Job)
		s.Jobs.UpdateEntry(e, func() { e.Run, e.Job = &ev.Run.Run, e.Job.Updated(ev.Run.Run.Updated) })
		if !ev.Run.Seen.IsZero() {
			if s.Jobs.DelaysLearned == nil {
				s.Jobs.DelaysLearned = map[*job.Entry]time.Time{}
			}
			s.Jobs.DelaysLearned[e] = ev.Run.Seen
		}
	case ev.Node != nil:
		n := s.Cluster.Node(ev.Node.ID)
		s.Jobs.SetNodeRecord(n, ev.Node)
		s.Cluster.MarkDirty(n)
	case ev.Session != nil:
		n := s.Cluster.Node(ev.Session.Node)
		n.Session, n.GainedRoom, s.Cluster.Stale.Capacity = ev.Session, true, true
		s.Cluster.MarkDirty(n)
	case ev.Cordon != nil:
		n := s.Cluster.Node(ev.Cordon.Node)
		n.Cordon = ev.Cordon
		s.Cluster.MarkDirty(n)
	case ev.Score != nil:
		s.Cluster.SetNodeScore(s.Cluster.Node(ev.Score.Node), ev.Score)
	case ev.Tenant != nil:
		s.Jobs.Tenant(ev.Tenant.ID).Record = ev.Tenant
		s.Jobs.Queues.SetTenant(ev.Tenant.ID, ev.Tenant)
	case ev.Queue != nil:
		s.Jobs.Queues.SetQueue(ev.Queue)
	case ev.Reservation != nil:
		s.Windows.SetReservation(ev.Reservation.Name, ev.Reservation)
	case ev.Usage != nil:
		s.Jobs.SetArchivedUsage(*ev.Usage)
	case ev.Topology != nil:
		s.Cluster.SetTopology(ev.Topology)
	case ev.Forecast != nil:
		s.Jobs.SetForecast(ev.Forecast.Job, ev.Forecast)
	case ev.Protect != nil:
		s.Jobs.SetProtection(ev.Protect.Job, ev.Protect)
	case ev.Gone.Kind != "":
		s.applyDeletion(ev.Gone)
	}
}

// applyDeletion removes a deleted record. The devices of a deleted job are already free, because the store archives a
// job only after they are released.
func (s *State) applyDeletion(g ares.Gone) {
	switch g.Kind {
	case ares.KindJob:
		if e := s.Jobs.EntryByID[ares.JobID(g.ID)]; e != nil {
			s.Jobs.UpdateEntry(e, func() { e.Job, e.Run, e.Forecast = nil, nil, nil })
			s.Jobs.SetProtection(e.ID, nil)
		}
	case ares.KindRun:
		if e := s.Jobs.EntryByID[ares.JobID(g.ID)]; e != nil {
			s.Jobs.UpdateEntry(e, func() { e.Run = nil })
		}
	case ares.KindNode, ares.KindSession, ares.KindCordon, ares.KindScore:
		s.Jobs.ApplyNodeDeletion(g)
	case ares.KindTenant:
		if t := s.Jobs.Tenants[g.ID]; t != nil {
			t.Record = nil
		}
		s.Jobs.Queues.SetTenant(g.ID, nil)
	case ares.KindQueue:
		tenant, name, _ := strings.Cut(g.ID, "/")
		s.Jobs.Queues.DropQueue(tenant, name)
	case ares.KindReservation:
		s.Windows.SetReservation(g.ID, nil)
	case ares.KindUsage:
		tenant, name, _ := strings.Cut(g.ID, "/")
		s.Jobs.SetArchivedUsage(ares.Usage{Tenant: tenant, Queue: name})
	case ares.KindTopology:
		s.Cluster.SetTopology(&ares.Topology{})
	case ares.KindForecast:
		s.Jobs.SetForecast(ares.JobID(g.ID), nil)
	case ares.KindProtection:
		s.Jobs.SetProtection(ares.JobID(g.ID), nil)
	case ares.KindProgress, ares.KindPolicy, ares.KindGrant: // decisions do not depend on these records
	}
}
