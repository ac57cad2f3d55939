package explain

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"
)

// queuePosition sets the position of a pending job in its queue, and the number of jobs ahead of it. Jobs of other
// tenants are counted, but never named. The result is the first job of the same tenant that is ahead in the queue,
// or nil if no such job is ahead.
func (ex *Explainer) queuePosition(e *job.Entry, now time.Time, out *ares.Explanation) *ares.Job {
	if e.Queue != job.InPending {
		return nil
	}
	ex.jobs.AdvanceClock(now)
	out.Rank, out.Of = ex.jobs.Queues.Position(&e.Item)
	out.Order = ex.jobs.OrderText(e, now)
	own, first, others := ex.jobs.Queues.CountAhead(&e.Item, now)
	if own > 0 {
		out.Ahead = append(out.Ahead, ares.Ahead{Tenant: e.Job.Tenant, Jobs: own, First: first.Owner.ID})
	}
	if others > 0 {
		out.Ahead = append(out.Ahead, ares.Ahead{Jobs: others})
	}
	if own == 0 {
		return nil
	}
	return first.Owner.Job
}

// These constants limit the list of jobs that hold devices.
const (
	holderNodes = 64 // nodes that are examined
	maxHolders  = 10 // jobs in the answer, those with the most GPUs first
)

// topHolders returns the jobs that hold devices which the waiting job could use. topHolders examines only
// the first feasible nodes. All jobs of other tenants are combined into one entry without a name.
func (c *diagnosis) topHolders(e *job.Entry) []ares.Holder {
	if !c.request.NeedsDevices() {
		return nil
	}
	var own []ares.Holder
	others := ares.Holder{}
	looked := 0
	for at := range c.state.cluster.Summaries {
		g := &c.state.cluster.Summaries[at]
		if !g.Open || !c.feasible.Has(at) {
			continue
		}
		held := c.matchFor(c.state.cluster.NodeTypes.All[g.Profile]).Fit & g.Usable &^ g.Free
		if held == 0 {
			continue
		}
		if looked++; looked > holderNodes {
			break
		}
		own, others = addHolders(c.state.jobs, c.state.cluster.Nodes[at], held, e.Job.Tenant, own, others)
	}
	slices.SortFunc(own, func(a, b ares.Holder) int { return cmp.Or(b.GPUs-a.GPUs, cmp.Compare(a.Job, b.Job)) })
	if others.GPUs > 0 {
		at, _ := slices.BinarySearchFunc(own, others.GPUs, func(h ares.Holder, gpus int) int { return gpus - h.GPUs })
		own = slices.Insert(own, at, others)
	}
	return own[:min(len(own), maxHolders)]
}

// addHolders adds the jobs that hold the given devices of a node. Jobs of the given tenant are added to the
// parameter `own`, and all other jobs to the parameter `others`.
func addHolders(table *job.Table, n *cluster.Node, held uint64, tenant string, own []ares.Holder, others ares.Holder) ([]ares.Holder, ares.Holder) {
	theirs, seen := uint64(0), []ares.JobID(nil)
	for _, occupant := range n.Occupants {
		var set uint64
		for _, sh := range occupant.Seat.Shares {
			set |= n.ShareBit(&sh)
		}
		if set &= held; set == 0 {
			continue
		}
		e := table.Owner(occupant)
		if e.Job == nil || e.Job.Tenant != tenant {
			theirs |= set
			continue
		}
		at := slices.IndexFunc(own, func(h ares.Holder) bool { return h.Job == e.ID })
		if at < 0 {
			at = len(own)
			own = append(own, ares.Holder{Tenant: tenant, Job: e.ID})
		}
		own[at].GPUs += bits.OnesCount64(set)
		if !slices.Contains(seen, e.ID) {
			seen = append(seen, e.ID)
			own[at].Nodes++
		}
	}
	if theirs != 0 {
		others.GPUs += bits.OnesCount64(theirs)
		others.Nodes++
	}
	return own, others
}
