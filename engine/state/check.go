package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// Check is Check of the state itself.
func (co *State) Check() error {
	co.Refresh()
	c := recount{pins: map[string]map[int]cluster.NUMAUse{}, taken: map[deviceKey]int{}, nodes: map[string]nodeUse{}, tenants: map[string]ares.Use{}, shapes: map[*job.Shape]int{}}
	if len(co.Jobs.ChangedEntries)+len(co.Cluster.Stale.Nodes) > 0 {
		return fmt.Errorf("something is left of a batch")
	}
	pending, delayed, foretold := 0, 0, 0
	for _, e := range co.Jobs.Entries() {
		foretold += e.Estimates()
		if err := e.Check(); err != nil {
			return err
		}
		c.add(e)
		switch e.QueueFor() {
		case job.InPending:
			pending++
		case job.InDelayed:
			delayed++
		case job.InNone:
		}
	}
	if queued, _ := co.Jobs.Queues.CountWaiting(); pending != queued || delayed != len(co.Jobs.Delayed) {
		return fmt.Errorf("%d jobs may be placed and %d are delayed, but %d and %d are queued", pending, delayed, queued, len(co.Jobs.Delayed))
	}
	lost := slices.DeleteFunc(co.Jobs.Entries(), func(e *job.Entry) bool { return !e.AwaitsRestart() })
	if !slices.Equal(lost, co.Jobs.Restarting) {
		return fmt.Errorf("%d gangs that lost a node wait, %d are noted", len(lost), len(co.Jobs.Restarting))
	}
	if foretold != co.Jobs.Estimated {
		return fmt.Errorf("of %d jobs it is known how long they run, counted are %d", foretold, co.Jobs.Estimated)
	}
	back := slices.DeleteFunc(co.Jobs.Entries(), func(e *job.Entry) bool { return !e.IsMigrating() })
	if !slices.Equal(back, co.Jobs.Migrating) {
		return fmt.Errorf("%d jobs are being moved, %d are noted", len(back), len(co.Jobs.Migrating))
	}
	if !slices.IsSortedFunc(co.Jobs.Delayed, job.ByDue) {
		return fmt.Errorf("a queue is out of order")
	}
	if err := co.Jobs.CheckArrays(); err != nil {
		return err
	}
	if err := errors.Join(co.Jobs.Running.Check(co.Jobs.Entries()), co.Jobs.CheckStops()); err != nil {
		return err
	}
	if err := c.checkTenants(co); err != nil {
		return err
	}
	if err := co.Jobs.CheckOrder(); err != nil {
		return err
	}
	return c.checkNodes(co)
}

type deviceKey struct{ node, device string }

type nodeUse struct{ seats, cpus, memory int }

// recount is the accounts counted anew from the runs alone.
type recount struct {
	pins    map[string]map[int]cluster.NUMAUse
	taken   map[deviceKey]int
	nodes   map[string]nodeUse
	tenants map[string]ares.Use
	shapes  map[*job.Shape]int
}

func (c *recount) add(e *job.Entry) {
	if e.Shape != nil {
		c.shapes[e.Shape]++
	}
	if e.Run == nil {
		return
	}
	held := e.Run.Phase.Active() && (e.Job == nil || !e.IsArray())
	for _, a := range e.Run.Attempts {
		for _, h := range a.Seats {
			if h.State == ares.SeatReleased || h.State == ares.SeatCleared {
				continue
			}
			u := c.nodes[h.Node]
			c.nodes[h.Node] = nodeUse{u.seats + 1, u.cpus + h.CPUs, u.memory + h.Memory}
			if h.NUMA >= 0 && (h.CPUs > 0 || h.Memory > 0) {
				if c.pins[h.Node] == nil {
					c.pins[h.Node] = map[int]cluster.NUMAUse{}
				}
				p := c.pins[h.Node][h.NUMA]
				c.pins[h.Node][h.NUMA] = cluster.NUMAUse{NUMA: h.NUMA, CPUs: p.CPUs + h.CPUs, Memory: p.Memory + h.Memory}
			}
			for _, sh := range h.Shares {
				c.taken[deviceKey{h.Node, sh.Device}] += sh.Milli
			}
			if h.State == ares.SeatVoided {
				continue // the node's, not the tenant's
			}
			held = true
			if e.Job != nil {
				c.tenants[e.Job.Tenant] = c.tenants[e.Job.Tenant].Add(seatUse(&h.Seat, e.Job))
			}
		}
	}
	if held && e.Job != nil {
		c.tenants[e.Job.Tenant] = c.tenants[e.Job.Tenant].Add(ares.Use{Jobs: 1})
	}
}

func (c *recount) checkTenants(s *State) error {
	for id, t := range s.Jobs.Tenants { // order-free: any broken law will do
		if t.Use != c.tenants[id] {
			return fmt.Errorf("tenant %s holds %+v, its account says %+v", id, c.tenants[id], t.Use)
		}
	}
	if len(c.shapes) != len(s.Jobs.Shapes.ByKey) || len(c.shapes)+len(s.Jobs.Shapes.Free) != s.Jobs.Shapes.Count {
		return fmt.Errorf("%d shapes live, %d are kept", len(c.shapes), len(s.Jobs.Shapes.ByKey))
	}
	for sh, refs := range c.shapes { // order-free: any broken law will do
		if sh.Refs != refs || s.Jobs.Shapes.ByKey[sh.Key] != sh || s.Jobs.Shapes.Requests.ByKey[sh.Request.Key] != sh.Request || s.Jobs.Shapes.Requests.Constraints[sh.Request.Constraints.Key] != sh.Request.Constraints {
			return fmt.Errorf("shape %s has %d jobs, its count says %d", sh.Key, refs, sh.Refs)
		}
		if err := s.checkFilter(sh.Request); err != nil {
			return err
		}
	}
	return nil
}

// checkFilter wants the sets of a want to be what looking at every node finds.
func (co *State) checkFilter(w *cluster.Request) error {
	f := &w.Constraints.Feasible
	if f.Layout != co.Cluster.Layout {
		return nil // will be found anew
	}
	co.Cluster.RefreshFeasible(w)
	for i, n := range co.Cluster.Nodes {
		suits, liked := n.Feasible(w)
		if f.Nodes.Has(i) != suits || f.Preferred.Has(i) != liked {
			return fmt.Errorf("filter %s has node %s: %t, %t", w.Key, n.ID, f.Nodes.Has(i), f.Preferred.Has(i))
		}
	}
	return nil
}

func (c *recount) checkNodes(s *State) error {
	if len(s.Cluster.Nodes) != len(s.Cluster.NodesByID) || !slices.IsSortedFunc(s.Cluster.Nodes, cluster.CompareByPlace) {
		return fmt.Errorf("the nodes are out of order")
	}
	accounts := 0
	for i, n := range s.Cluster.Nodes {
		if u := (nodeUse{n.Seats, n.CPUs, n.Memory}); u != c.nodes[n.ID] {
			return fmt.Errorf("node %s holds %+v, its account says %+v", n.ID, c.nodes[n.ID], u)
		}
		if len(n.Occupants) != n.Seats {
			return fmt.Errorf("node %s has %d seats, and knows whose %d of them are", n.ID, n.Seats, len(n.Occupants))
		}
		if held := kindsHeld(n); held != n.Kinds {
			return fmt.Errorf("node %s holds seats of the kinds %v, its account says %v", n.ID, held, n.Kinds)
		}
		if n.IsUnknown() {
			return fmt.Errorf("node %s is kept though nothing speaks of it", n.ID)
		}
		if got := s.Cluster.Domains.History(i); got != n.HistoryScore() {
			return fmt.Errorf("node %s has the history %d, the topology knows %d", n.ID, n.HistoryScore(), got)
		}
		if n.Pos != i {
			return fmt.Errorf("the index of node %s is stale", n.ID)
		}
		held, err := c.checkDevices(n)
		if err != nil {
			return err
		}
		accounts += held
	}
	if accounts != len(c.taken) {
		return fmt.Errorf("%d devices are held, %d have an account", len(c.taken), accounts)
	}
	return s.checkBoards()
}

// kindsHeld counts the seats on a node by kind.
func kindsHeld(n *cluster.Node) (out cluster.SeatKinds) {
	for _, s := range n.Occupants {
		out.Add(cluster.KindOfSeat(s.Seat), +1)
	}
	return out
}

// checkDevices wants the account of each device right, and counts the held.
func (c *recount) checkDevices(n *cluster.Node) (held int, err error) {
	var free uint64
	for i, d := range slices.Concat(n.Devices, n.Unlisted) {
		taken := c.taken[deviceKey{n.ID, d.ID}]
		if taken != d.Taken {
			return 0, fmt.Errorf("device %s of node %s has %d/1000 taken, its account says %d", d.ID, n.ID, taken, d.Taken)
		}
		if taken > cluster.WholeMilli {
			return 0, fmt.Errorf("device %s of node %s is sold twice: %d/1000", d.ID, n.ID, taken)
		}
		if taken > 0 {
			held++
		}
		if i < len(n.Devices) && taken == 0 {
			free |= 1 << i
		}
	}
	if n.Free != free&n.Usable {
		return 0, fmt.Errorf("node %s has the free devices %b, its account says %b", n.ID, free&n.Usable, n.Free)
	}
	pins := c.pins[n.ID]
	for _, p := range n.NUMAUses {
		if (p != cluster.NUMAUse{NUMA: p.NUMA, CPUs: pins[p.NUMA].CPUs, Memory: pins[p.NUMA].Memory}) {
			return 0, fmt.Errorf("node %s has %+v bound to NUMA node %d, its account says %+v", n.ID, pins[p.NUMA], p.NUMA, p)
		}
	}
	if len(pins) != len(n.NUMAUses) {
		return 0, fmt.Errorf("node %s has seats bound to %d NUMA nodes, its account says %d", n.ID, len(pins), len(n.NUMAUses))
	}
	return held, nil
}

// checkBoards wants what is kept for each node and each want to be what would
// be worked out now, and the counted asks to be those of the jobs.
func (co *State) checkBoards() error {
	if d := &co.Scorer.Demand; len(co.Cfg.Mix) == 0 {
		kinds, shares := d.Kinds, d.Shares
		recent := 0
		for _, e := range co.Jobs.EntryByID { // order-free: a count
			if e.Job != nil && e.Job.Revision > d.Window {
				recent++
			}
		}
		if recent != d.Recent {
			return fmt.Errorf("%d jobs are recent, counted are %d", recent, d.Recent)
		}
		co.Scorer.RecountDemand(co.Jobs.Asks())
		same := len(kinds) == len(d.Kinds) && shares == d.Shares
		for key, k := range kinds { // order-free: all of them
			same = same && d.Kinds[key] != nil && d.Kinds[key].Count == k.Count
		}
		if !same {
			return errors.New("the asks that were counted are not those of the jobs")
		}
	}
	for k := range co.Cluster.BlockMaxes {
		kept := *co.Cluster.BlockMaxAt(k)
		co.Cluster.BlockMaxes[k].Stale = true
		if now := co.Cluster.BlockMaxAt(k); kept != *now {
			return fmt.Errorf("the most that one of the nodes from %d on has left is %v, noted is %v", 64*k, *now, kept)
		}
	}
	for _, w := range co.Jobs.Shapes.Requests.ByKey { // order-free: each by itself
		at := co.Scorer.ScoreCaches.Of(w)
		if at != nil && !slices.Contains(co.Scorer.ScoreCaches.Requests, w) {
			return fmt.Errorf("the scores of the request %s are not in the pool", w.Key)
		}
		if at == nil || at.Layout != co.Cluster.Layout || at.Mix != co.Scorer.Demand.Mix.ID {
			continue
		}
		b := co.Scorer.RefreshScores(w)
		kept := score.ScoreCache{Costs: slices.Clone(b.Costs), Least: slices.Clone(b.Least)}
		if co.Scorer.RescoreAll(w); !slices.Equal(kept.Costs, b.Costs) || !slices.Equal(kept.Least, b.Least) {
			return fmt.Errorf("what nodes cost the want %s is not what was noted", w.Key)
		}
		for i, n := range co.Cluster.Nodes {
			if room := n.Schedulable() && n.RoomFor(w) > 0; room != (b.Costs[i] < score.NoFit) {
				return fmt.Errorf("node %s has room for the want %s: %t, by what it costs: %t", n.ID, w.Key, room, !room)
			}
		}
	}
	return nil
}

// seatUse is what one seat of a job counts against its tenant's limits, counted
// apart from the accounts.
func seatUse(seat *ares.Seat, j *ares.Job) ares.Use {
	u := ares.Use{CPUs: seat.CPUs, MemoryMB: seat.Memory, GPUMemoryMB: j.GPUMemoryMB}
	for _, sh := range seat.Shares {
		if sh.Milli >= cluster.WholeMilli {
			u.GPUs++
		} else {
			u.GPUMilli += sh.Milli
		}
	}
	return u
}
