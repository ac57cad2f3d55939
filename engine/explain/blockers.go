package explain

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/job"
	"github.com/ares-scheduler/ares/engine/window"
)

// blockersOf returns the blockers of a job with the given Shape, and the diagnosis of the nodes. The diagnosis is nil
// if the job can be placed. The parameter `e` is nil for a job that is not in the state. The parameter `model` is the
// value of gpu_model as written in the job. The list of blockers is empty if the job would be placed as soon as it is
// first in the order.
func (ex *Explainer) blockersOf(e *job.Entry, sh *job.Shape, model string, stay window.Stay) ([]ares.Blocker, *diagnosis) {
	now := stay.At
	out := ex.admissionWaits(e, sh, now)
	members, ban := ex.jobs.AdmissibleMembers(sh, now)
	if members == 0 {
		members, ban = sh.MinMembers, 0 // diagnose as if it were admitted
	}
	t := ex.round.Begin(now)
	defer t.Close()
	defer t.Preempt.ReleaseNominations()
	t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, e, nil)
	m := t.Txn.Mark()
	if _, ok := t.Place.PlaceJob(sh, members, ban, e, stay); ok {
		return out, nil
	}
	t.Txn.Undo(m)
	c := ex.diagnose(sh, ban, stay)
	c.separateHeld(t.Txn.Deltas)
	out = append(out, ex.nodeBlockers(c, model)...)
	return append(out, t.Preempt.PreemptionBlockers(e, now)...), c
}

// admissionWaits returns the blockers that do not depend on free capacity: start conditions, delays, the parallelism of the job's array,
// limits and quotas.
func (ex *Explainer) admissionWaits(e *job.Entry, sh *job.Shape, now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e != nil && e.Job != nil {
		out = ex.jobs.StartBlockers(e.Job, e.Run, now)
	}
	if e != nil && e.Run != nil {
		out = append(out, e.DelayBlockers(now)...)
	}
	if e != nil && e.Job != nil {
		if why := ex.jobs.ParallelismText(e); why != "" {
			out = append(out, ares.Blocker{Kind: ares.BlockerArray, Detail: ares.PlainText(why)})
		}
	}
	return append(out, ex.jobs.AdmissionBlockers(sh, now)...)
}

// gangBlocker returns why a gang cannot be placed although some of its members fit.
func (ex *Explainer) gangBlocker(c *diagnosis) ares.Blocker {
	sh := c.shape
	if b, ok := c.modelBlocker(); ok {
		return b
	}
	if c.fitted < sh.MinMembers {
		return ares.Blocker{Kind: ares.BlockerCapacity, Detail: ares.Textf("%d of %d members fit (%s each)", c.fitted, sh.MinMembers, sh.Request.Text())}
	}
	level := sh.Wish.Required
	if level == "" {
		return ares.Blocker{Kind: ares.BlockerCapacity, Detail: ares.Textf(
			"%d members fit, but not in places that meet network_bandwidth and the limits on nodes and GPUs of one leaf", c.fitted)}
	}
	most, where := ex.densestDomain(c, level)
	detail := fmt.Sprintf("%d of %d members fit in one %s at most", most, sh.MinMembers, level)
	if where != "" {
		detail += fmt.Sprintf(" (%s)", where)
	}
	if most >= sh.MinMembers {
		detail = fmt.Sprintf("%d members fit in %s %s, but its network or the limits on one leaf do not allow it", most, level, where)
	}
	return ares.Blocker{Kind: ares.BlockerCapacity, Detail: ares.PlainText(detail)}
}

// densestDomain searches the domains of one level for the domain in which the most members fit. The results are the
// number of members and the name of the domain.
func (ex *Explainer) densestDomain(c *diagnosis, level ares.Level) (most int, where string) {
	feasible, _ := ex.round.Place.FeasibleNodes(c.shape, c.request, c.stay)
	for lo := 0; lo < len(ex.cluster.Nodes); {
		_, hi := ex.cluster.Domains.EnclosingDomain(lo, level)
		for _, v := range c.gangRequests() {
			room := 0
			for _, n := range ex.cluster.Nodes[lo:hi] {
				if n.Schedulable() && feasible.Has(n.Pos) {
					room += n.RoomFor(v.request)
				}
			}
			if room > most {
				most, where = room, ex.cluster.Domains.DomainName(lo, level)
				if where == "" && hi == lo+1 {
					where = ex.cluster.Nodes[lo].ID
				}
			}
		}
		lo = hi
	}
	return most, where
}
