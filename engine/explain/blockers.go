package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// blockersOf lists what keeps a job of this shape waiting; e is nil for a job
// the state does not know. model is the want's as the job spells it. It is
// empty when the job could be placed by itself. The census is the one that was
// taken, nil when there was room.
func (ex *Explainer) blockersOf(e *job.Entry, sh *job.Shape, model string, now time.Time) ([]ares.Blocker, *diagnosis) {
	out := ex.admissionWaits(e, sh, now)
	members, ban := ex.jobs.AdmissibleMembers(sh, now)
	if members == 0 {
		members, ban = sh.MinMembers, 0 // what would be, were it admitted
	}
	t := ex.round.Begin()
	defer t.Close()
	defer t.Preempt.ReleaseNominations()
	t.Preempt.AdvanceNominations(&ares.Plan{Now: now}, e, nil)
	m := t.Txn.Mark()
	if _, ok := t.Place.PlaceJob(sh, members, ban, e); ok {
		return out, nil
	}
	t.Txn.Undo(m)
	c := ex.diagnose(sh, ban)
	c.separateHeld(t.Txn.Deltas)
	out = append(out, ex.nodeBlockers(c, model)...)
	return append(out, t.Preempt.PreemptionBlockers(e, now)...), c
}

// admissionWaits lists what keeps the job waiting however much room there is.
func (ex *Explainer) admissionWaits(e *job.Entry, sh *job.Shape, now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e != nil && e.Run != nil {
		out = e.DelayBlockers(now)
	}
	if e != nil && e.Job != nil {
		if why := ex.jobs.ParallelismText(e); why != "" {
			out = append(out, ares.Blocker{Kind: job.KindArray, Detail: why})
		}
	}
	return append(out, ex.jobs.AdmissionBlockers(sh, now)...)
}

// gangBlocker says why a gang whose members find room finds no place together.
func (ex *Explainer) gangBlocker(c *diagnosis) ares.Blocker {
	sh := c.shape
	if c.fitted < sh.MinMembers {
		return ares.Blocker{Kind: job.KindCapacity, Detail: fmt.Sprintf("%d of %d members fit (%s each)", c.fitted, sh.MinMembers, sh.Request.Text())}
	}
	level := sh.Wish.Required
	if level == "" {
		return ares.Blocker{Kind: job.KindCapacity, Detail: fmt.Sprintf(
			"%d members fit, but not in places that meet network_bandwidth and the limits on nodes and GPUs of one leaf", c.fitted)}
	}
	most, where := ex.densestDomain(c, level)
	detail := fmt.Sprintf("%d of %d members fit in one %s at most", most, sh.MinMembers, level)
	if where != "" {
		detail += fmt.Sprintf(" (%s)", where)
	}
	if most >= sh.MinMembers {
		detail = fmt.Sprintf("%s %s has room for %d members, but its network or the limits on one leaf do not allow it", level, where, most)
	}
	return ares.Blocker{Kind: job.KindCapacity, Detail: detail}
}

// densestDomain is the domain of a level that has room for the most members.
func (ex *Explainer) densestDomain(c *diagnosis, level ares.Level) (most int, where string) {
	reach, _ := ex.round.Place.FeasibleNodes(c.shape, c.request)
	for lo := 0; lo < len(ex.cluster.Nodes); {
		_, hi := ex.cluster.Domains.EnclosingDomain(lo, level)
		room := 0
		for _, n := range ex.cluster.Nodes[lo:hi] {
			if n.Schedulable() && reach.Has(n.Pos) {
				room += n.RoomFor(c.request)
			}
		}
		if room > most {
			most, where = room, ex.cluster.Domains.DomainName(lo, level)
			if where == "" && hi == lo+1 {
				where = ex.cluster.Nodes[lo].ID
			}
		}
		lo = hi
	}
	return most, where
}

// reasonText says what a hurdle means for this shape. model is the want's as the
// job spells it.
func (c *diagnosis) reasonText(h cluster.Reason, model string) string {
	w := c.request
	switch h {
	case cluster.ReasonNoSession:
		return "no session: the node's agent is not connected"
	case cluster.ReasonCordoned:
		return "cordoned"
	case cluster.ReasonUnfit:
		return "it could not start jobs lately"
	case cluster.ReasonSeatLimit:
		return fmt.Sprintf("%d seats are taken, which is the most", cluster.MaxSeats)
	case cluster.ReasonSelector:
		return "labels do not match node_selector " + w.SelectorText()
	case cluster.ReasonNodeAffinity:
		return "labels do not match node_affinity"
	case cluster.ReasonRegion:
		return "region is not one of " + strings.Join(w.Regions, ", ")
	case cluster.ReasonTaint:
		return "a taint that the job does not tolerate"
	case cluster.ReasonJobAffinity:
		return "affinity or anti_affinity to other jobs"
	case cluster.ReasonAccelerator:
		if w.MIG != "" {
			return "no " + w.DeviceWord()
		}
		return "no device of type " + w.Kind
	case cluster.ReasonModel:
		return w.TooFewText() + " of model " + model
	case cluster.ReasonDeviceMemory:
		return fmt.Sprintf("%s with %d MB of memory", w.TooFewText(), w.DeviceMemory)
	case cluster.ReasonQuota:
		return "only models of which the quota leaves too little"
	case cluster.ReasonUnhealthy:
		return "too many devices are unhealthy, too hot or cut into slices"
	case cluster.ReasonTooSmall:
		return "too small even when empty (" + w.Text() + " for one member)"
	case cluster.ReasonBusyDevices:
		if w.Milli > 0 {
			return fmt.Sprintf("no device has %d/1000 free", w.Milli)
		}
		return fmt.Sprintf("too few free devices: %d needed, at most %d free", w.GPUs, c.mostFree)
	case cluster.ReasonBusyCPUs:
		return fmt.Sprintf("too few free CPU cores: %d needed", w.CPUs)
	case cluster.ReasonBusyMemory:
		return fmt.Sprintf("too little free memory: %d MB needed", w.Memory)
	case cluster.ReasonNUMA:
		return "no NUMA node has it all free (" + w.Text() + ")"
	case cluster.ReasonHeld:
		return "what is free is kept for another job"
	default:
		return "room"
	}
}
