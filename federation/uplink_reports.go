package federation

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// The method `reports` tells the hub about the granted jobs that changed.
func (l *link) reports() error {
	for id := range l.u.takeTouched() { // order-free: jobs are independent
		e := l.u.view.Job(id)
		if e == nil || e.Job.Origin == nil || e.Job.Origin.Hub != l.member.HubStore || e.Job.ArrayOf != "" {
			continue
		}
		if err := l.reportJob(e); err != nil {
			return err
		}
	}
	return nil
}

// reportJob reports the end of a job, or sends its run. The end is in the store before it is reported (F3). It is reported
// once in a session, and again in the next session if the hub has not acknowledged it.
func (l *link) reportJob(e *entry) error {
	id, epoch := e.Job.ID, e.Job.Origin.Epoch
	if e.Run.Returning != "" && e.Run.CheckReturn(e.Job) == nil {
		return l.returnStopped(e)
	}
	if !e.Run.Phase.Final() {
		l.offerFailing(e)
		if e.Run.Revision == 0 || l.mirrored[id] == e.Run.Revision {
			return nil
		}
		data, err := encodeRun(id, &e.Run)
		if err != nil {
			return err
		}
		l.mirrored[id] = e.Run.Revision
		l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Mirror{Mirror: &apipb.RunMirror{
			JobId: string(id), Epoch: epoch, Incarnation: l.me.Incarnation, Run: data,
		}}})
		return nil
	}
	if l.acked[id] == epoch || l.reported[id] == epoch {
		return nil
	}
	outcome := grant.Final
	if e.Run.Phase == ares.Returned {
		outcome = grant.Returned
	}
	run := &e.Run
	if e.Job.IsArray() {
		run = l.u.withElements(e)
	}
	return l.report(id, epoch, outcome, run)
}

// withElements returns the run of an array with the usage of its elements. They are live until the array is archived.
func (u *Uplink) withElements(e *entry) *ares.Run {
	run := e.Run.Clone()
	u.view.Search(func(j *ares.Job) bool { return j.ArrayOf == e.Job.ID }, func(el *entry) bool {
		run.AddElements(&el.Run)
		return true
	})
	return &run
}

func (l *link) report(id ares.JobID, epoch int64, outcome grant.State, run *ares.Run) error {
	m := &apipb.GrantReport{JobId: string(id), Epoch: epoch, Incarnation: l.me.Incarnation, Outcome: wireStates[outcome]}
	if run != nil {
		m.Reason = run.Reason
		data, err := encodeRun(id, run)
		if err != nil {
			return err
		}
		m.Run = data
	}
	l.reported[id] = epoch
	delete(l.mirrored, id)
	l.put(&apipb.MemberMessage{Body: &apipb.MemberMessage_Report{Report: m}})
	return nil
}

// reportFloors reports what became of grants of which only the floor is left: taken IDs, and jobs that were archived before
// the hub acknowledged their end.
func (l *link) reportFloors() error {
	floors, err := l.u.Store.Floors(l.ctx)
	if err != nil {
		return err
	}
	for i := range floors {
		f := &floors[i]
		if f.Acknowledged || f.Hub != l.member.HubStore || l.reported[f.Job] == f.Epoch {
			continue
		}
		if e := l.u.view.Job(f.Job); e != nil && e.Job.Origin != nil && e.Job.Origin.Epoch == f.Epoch {
			continue // reportJob reports it
		}
		if err = l.report(f.Job, f.Epoch, grant.State(f.Outcome), f.Run); err != nil {
			return err
		}
	}
	return nil
}

// The method `acknowledged` records that the hub needs a report no more.
func (l *link) acknowledged(m *apipb.ReportAcknowledgement) error {
	id := ares.JobID(m.GetJobId())
	if l.reported[id] != m.GetEpoch() {
		return nil
	}
	delete(l.reported, id)
	l.acked[id] = m.GetEpoch()
	return l.u.Store.Acknowledge(l.ctx, store.Floor{Job: id, Hub: l.member.HubStore, Epoch: m.GetEpoch(), Outcome: store.GrantOutcome(stateOf(m.GetOutcome())), At: l.u.Now()})
}
