package grant

import (
	"cmp"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Hub is the hub's knowledge of its clusters and of all jobs that have not ended.
type Hub struct {
	Clusters map[string]Cluster
	Jobs     map[ares.JobID]Job
}

// Cluster is what the hub has recorded about a member.
type Cluster struct {
	Incarnation string // the incarnation that the hub has confirmed, "" before the first
	Dead        bool   // an operator declared it dead
}

// Job is a job of the hub that has not ended. A job without a grant waits; its Epoch is 0.
type Job struct {
	Epoch       int64
	Cluster     string // the owner of a bound grant, "" of an open offer
	Incarnation string // of the owner
	Once        bool   // the job is at_most_once
	Cancel      bool   // somebody has cancelled it, and its owner has to end it
}

// Do is what the hub does with the grant of a job.
type Do string

// These are the changes that the hub makes to a grant.
const (
	Rebind Do = "rebind" // bind the grant to this cluster, incarnation and epoch
	Commit Do = "commit" // the owner's run is final
	Wait   Do = "wait"   // delete the grant, so that the job can be offered again
	Lose   Do = "lose"   // the at_most_once job may have run, so it ends as lost
	Cancel Do = "cancel" // the job has no owner and was cancelled, so it ends
)

// Change is one change of the hub's records. Each Change is one transaction that compares the grant with the old epoch.
type Change struct {
	Job         ares.JobID
	Do          Do
	Old         int64 // epoch of the grant that the change replaces, 0 if there was none
	Epoch       int64 // for Rebind and Commit
	Cluster     string
	Incarnation string
	Exclude     bool // the cluster said that the ID is taken, so it gets no further offer of this job
	Run         *ares.Run
}

// Reconciliation is the answer to a hello.
type Reconciliation struct {
	// Dead says that the cluster was declared dead. It must drop everything that it was granted and join with a new incarnation.
	Dead bool
	// Copied names a job that is bound to this incarnation, although the member's store does not know the claim. The store
	// is therefore a copy, or it was rolled back without a restore.
	Copied ares.JobID
	// Changes are written before the hub answers.
	Changes []Change
	// Bound are grants of this member that its store does not hold. It creates the job, or reports its end again.
	Bound []Ref
	// Drop are grants that the member holds and that are not bound to it.
	Drop []Ref
}

// Reconcile compares a member's hello with the hub's grants (F2, F5).
//
// A hello of the confirmed incarnation takes nothing away: the member may have started any job that is bound to it. A
// new incarnation follows a restore, and all processes from before it are dead. What it holds stays bound to it. What it
// does not hold waits again, because the store may have lost the record of a start.
func (h *Hub) Reconcile(hello *Hello) Reconciliation {
	var r Reconciliation
	c := h.Clusters[hello.Cluster]
	if c.Dead && c.Incarnation == hello.Incarnation {
		r.Dead = true
		return r
	}
	isNew := c.Incarnation != hello.Incarnation
	listed := byJob(hello.Grants)
	stays := map[ares.JobID]int64{} // grants that are bound to the member after the changes
	for id, j := range h.Jobs {     // order-free: sorted below
		if j.Cluster != hello.Cluster {
			continue
		}
		l := listed[id]
		known := l.Epoch == j.Epoch
		switch {
		case isNew && known && l.State == Held:
			r.Changes = append(r.Changes, Change{Job: id, Do: Rebind, Old: j.Epoch, Epoch: j.Epoch, Cluster: hello.Cluster, Incarnation: hello.Incarnation})
			stays[id] = j.Epoch
		case isNew && known && l.State == Final:
			r.Changes = append(r.Changes, Change{Job: id, Do: Commit, Old: j.Epoch, Epoch: j.Epoch, Cluster: hello.Cluster, Incarnation: hello.Incarnation, Run: l.Run})
		case isNew:
			r.Changes = append(r.Changes, Change{Job: id, Do: j.release(), Old: j.Epoch, Cluster: hello.Cluster, Exclude: known && l.State == Taken})
		case known && l.State == Held:
			stays[id] = j.Epoch
		case known: // claimed: create it. Ended: report it again
			r.Bound = append(r.Bound, Ref{id, j.Epoch})
			stays[id] = j.Epoch
		case r.Copied == "" || id < r.Copied: // F13: the member's store has no record of its claim
			r.Copied = id
		}
	}
	for id, l := range listed { // order-free: sorted below
		if l.State == Held && stays[id] != l.Epoch {
			r.Drop = append(r.Drop, Ref{id, l.Epoch})
		}
	}
	slices.SortFunc(r.Changes, func(a, b Change) int { return cmp.Compare(a.Job, b.Job) })
	sortRefs(r.Bound)
	sortRefs(r.Drop)
	return r
}

// The method `release` says what becomes of a job that has no owner any more (F5, F8). An at_most_once job may have
// been started by its owner, so it must not be offered again.
func (j *Job) release() Do {
	switch {
	case j.Once:
		return Lose
	case j.Cancel:
		return Cancel
	}
	return Wait
}

// Release takes a bound job from a cluster that was declared dead or fenced.
func (h *Hub) Release(id ares.JobID) Change {
	j := h.Jobs[id]
	return Change{Job: id, Do: j.release(), Old: j.Epoch, Cluster: j.Cluster}
}

// Resolve returns the changes after the restore of a hub, when every cluster that is not dead has answered (F6). For
// each job, the highest epoch that a member knows wins. An open offer lapses: its epoch may have been bound since the
// backup.
func (h *Hub) Resolve(answers []Hello) []Change {
	type claim struct {
		Listed
		cluster, incarnation string
	}
	best := map[ares.JobID]claim{}
	for i := range answers {
		a := &answers[i]
		for id, l := range byJob(a.Grants) { // order-free: epochs of one job differ between clusters
			if l.State != Claimed && l.Epoch > best[id].Epoch {
				best[id] = claim{l, a.Cluster, a.Incarnation}
			}
		}
	}
	var out []Change
	for id, j := range h.Jobs { // order-free: sorted below
		b, ok := best[id]
		change := Change{Job: id, Old: j.Epoch, Epoch: b.Epoch, Cluster: b.cluster, Incarnation: b.incarnation}
		switch {
		case ok && b.State == Held:
			change.Do = Rebind
			if j.Epoch == b.Epoch && j.Cluster == b.cluster && j.Incarnation == b.incarnation {
				continue
			}
		case ok && b.State == Final:
			change.Do, change.Run = Commit, b.Run
		default:
			change.Do, change.Epoch, change.Exclude = j.release(), 0, ok && b.State == Taken
			if change.Do == Wait && j.Epoch == 0 && !change.Exclude {
				continue
			}
		}
		out = append(out, change)
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Job, b.Job) })
	return out
}

// Apply returns the job after a change, and false if the job has ended.
func (c *Change) Apply(j Job) (Job, bool) {
	switch c.Do {
	case Rebind:
		j.Epoch, j.Cluster, j.Incarnation = c.Epoch, c.Cluster, c.Incarnation
		return j, true
	case Wait:
		j.Epoch, j.Cluster, j.Incarnation = 0, "", ""
		return j, true
	case Commit, Lose, Cancel:
	}
	return Job{}, false
}

func sortRefs(list []Ref) {
	slices.SortFunc(list, func(a, b Ref) int { return cmp.Compare(a.Job, b.Job) })
}
