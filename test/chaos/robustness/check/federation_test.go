package check_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The method `grant` stores a job that a hub has granted to this cluster.
func (m *made) grant(id string, epoch int64) {
	m.jobs[id] = &ares.Job{
		ID: ares.JobID(id), AcceptedAt: m.wall(), Revision: m.rev + 1, Spec: ares.Spec{Tenant: "t", Members: 1, GPUs: 1}.WithDefaults(),
		Origin: &ares.Origin{Hub: "hub", Epoch: epoch},
	}
	m.runs[id] = new(ares.NewRun(m.wall()))
	if m.gone[id] {
		delete(m.gone, id)
	} else {
		m.order = append(m.order, id)
	}
	m.commit(ares.Event{Job: m.jobs[id]})
}

// The function `grantedAgain` returns a record of a cluster to which a hub has granted a job twice. Under the first grant, two attempts
// fail, and the cluster gives the job back.
func grantedAgain(t *testing.T, epoch int64) *made {
	t.Helper()
	m := good(t)
	m.grant("granted", 10)
	m.jobs["granted"].Retry = ares.RetryPolicy{MaxRetries: new(5), RetryOn: []string{ares.RetryOnFailure}}
	for range 2 {
		m.place("granted", "n1/0")
		m.start("granted")
		m.say("granted", 0, trace.Ended, "")
		m.end("granted", ares.OutcomeFailed)
		m.move("granted", func(r *ares.Run) error { return r.Ready(m.wall()) })
	}
	m.move("granted", func(r *ares.Run) error { return r.Return(m.jobs["granted"], "it failed twice", m.wall()) })
	m.archive("granted") // the first of two transactions in which a job comes back deletes it
	m.grant("granted", epoch)
	m.place("granted", "n2/0")
	m.start("granted")
	m.end("granted", ares.OutcomeSucceeded)
	return m
}

func TestGrantedAgain(t *testing.T) {
	t.Parallel()
	for _, v := range check.Run(copied(t, grantedAgain(t, 20).finish())).Violations {
		t.Error(v)
	}
	found(t, grantedAgain(t, 10).finish(), check.OneCommit, "it was archived and is back")
	m := grantedAgain(t, 20)
	m.r.Witnesses["granted"][len(m.r.Witnesses["granted"])-1].Fence--
	found(t, m.finish(), check.NoOverlap, "which the store never gave to it")
}

// TestReturnedWhileItRuns plants a job that is given back while an attempt is under way.
func TestReturnedWhileItRuns(t *testing.T) {
	t.Parallel()
	r := copied(t, grantedAgain(t, 20).finish())
	for _, run := range runs(r, "granted") {
		if run.Phase == ares.Running {
			run.Phase = ares.Returned
			break
		}
	}
	found(t, r, check.OneCommit, "attempt 1 was under way")
}

// The function `cancelledAtHub` returns a record of a hub. A job of the hub is cancelled while a cluster owns it, but the cluster ends it
// before it hears of that.
func cancelledAtHub(t *testing.T) *made {
	t.Helper()
	m := make1(t)
	m.r.Meta.Hub = true
	m.submit("late", 1)
	m.move("late", func(r *ares.Run) error { return r.Bind("east", 10, m.wall()) })
	m.copyRun("late", ares.Running)
	m.cancel("late")
	m.get("late")
	m.copyRun("late", ares.Succeeded)
	m.get("late")
	m.call(trace.Call{Op: trace.Cancel, Job: "late", Outcome: trace.Refused, Code: string(ares.Conflict)}, nil)
	return m
}

// The method `copyRun` stores a copy of the run of a job's owner.
func (m *made) copyRun(id string, phase ares.Phase) { m.copyAttempts(id, phase, m.runs[id].Base(), 1) }

// The method `copyAttempts` stores a copy of a run with some attempts, which are added to those of another run.
func (m *made) copyAttempts(id string, phase ares.Phase, base ares.Run, placed int) {
	m.move(id, func(r *ares.Run) error {
		owners := r.Clone()
		owners.Phase, owners.Placed, owners.Revision, owners.Cluster = phase, placed, r.AsOf+1, ""
		_, err := r.Mirror(&base, &owners)
		return err
	})
}

// TestOwnerForgets shows a job of a hub with fewer attempts than before. Only a restored cluster may forget attempts.
func TestOwnerForgets(t *testing.T) {
	t.Parallel()
	m := make1(t)
	m.r.Meta.Hub = true
	m.submit("late", 1)
	m.move("late", func(r *ares.Run) error { return r.Bind("east", 10, m.wall()) })
	base := m.runs["late"].Base()
	for _, placed := range []int{3, 2} {
		m.copyAttempts("late", ares.Running, base, placed)
		m.get("late")
	}
	r := m.finish()
	found(t, copied(t, r), check.Linearizable, contradicts)
	r.Meta.OwnersRestored = true
	for _, v := range check.Run(r).Violations {
		if v.Oracle == check.Linearizable {
			t.Error(v)
		}
	}
}

func TestHub(t *testing.T) {
	t.Parallel()
	for _, v := range check.Run(copied(t, cancelledAtHub(t).finish())).Violations {
		t.Error(v)
	}
	for _, c := range []planted{
		{"the cancel is forgotten", check.OneCommit, "the cancel was forgotten", func(r *trace.Run) {
			last := runs(r, "late")
			last[len(last)-1].Cluster = ""
		}},
		{"the cancel is forgotten, as the client sees it", check.Linearizable, "the store has it succeeded in the end", func(r *trace.Run) {
			last := runs(r, "late")
			last[len(last)-1].Cluster = ""
		}},
		{"it goes on after the cancel", check.Linearizable, contradicts, func(r *trace.Run) {
			calls(r, trace.Get, "late")[0].Stop = ""
		}},
		{"an end that changes", check.OneCommit, "for good", func(r *trace.Run) {
			all := runs(r, "late")
			all[1].Phase = ares.Failed
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := copied(t, cancelledAtHub(t).finish())
			c.plant(r)
			found(t, r, c.oracle, c.words)
		})
	}
}
