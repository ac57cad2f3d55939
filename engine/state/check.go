package state

import (
	"errors"
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/job"
)

// Check is Check of the state itself.
func (s *State) Check() error {
	s.Refresh()
	c := recount{pins: map[string]map[int]cluster.NUMAUse{}, taken: map[deviceKey]int{}, nodes: map[string]nodeUse{}, tenants: map[string]ares.Use{}, shapes: map[*job.Shape]int{}}
	if len(s.Jobs.ChangedEntries)+len(s.Cluster.DirtyNodes) > 0 {
		return fmt.Errorf("something is left of a batch")
	}
	pending, delayed, foretold := 0, 0, 0
	for _, e := range s.Jobs.Entries() {
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
	if queued, _ := s.Jobs.Queues.CountWaiting(); pending != queued || delayed != len(s.Jobs.Delayed) {
		return fmt.Errorf("%d jobs may be placed and %d are delayed, but %d and %d are queued", pending, delayed, queued, len(s.Jobs.Delayed))
	}
	lost := slices.DeleteFunc(s.Jobs.Entries(), func(e *job.Entry) bool { return !e.AwaitsRestart() })
	if !slices.Equal(lost, s.Jobs.Restarting) {
		return fmt.Errorf("%d gangs that lost a node wait, %d are noted", len(lost), len(s.Jobs.Restarting))
	}
	if foretold != s.Jobs.Estimated {
		return fmt.Errorf("of %d jobs it is known how long they run, counted are %d", foretold, s.Jobs.Estimated)
	}
	back := slices.DeleteFunc(s.Jobs.Entries(), func(e *job.Entry) bool { return !e.IsMigrating() })
	if !slices.Equal(back, s.Jobs.Migrating) {
		return fmt.Errorf("%d jobs are being moved, %d are noted", len(back), len(s.Jobs.Migrating))
	}
	if !slices.IsSortedFunc(s.Jobs.Delayed, job.ByDue) {
		return fmt.Errorf("a queue is out of order")
	}
	if err := s.Jobs.CheckArrays(); err != nil {
		return err
	}
	if err := errors.Join(s.Jobs.Running.Check(s.Jobs.Entries()), s.Jobs.CheckStops()); err != nil {
		return err
	}
	if err := c.checkTenants(s); err != nil {
		return err
	}
	if err := s.Jobs.CheckOrder(); err != nil {
		return err
	}
	return c.checkNodes(s)
}

// checkFeasible wants the sets of a want to be what looking at every node finds.
func (s *State) checkFeasible(r *cluster.Request) error {
	f := &r.Constraints.Feasible
	if f.Layout != s.Cluster.Layout {
		return nil // will be found anew
	}
	s.Cluster.RefreshFeasible(r)
	for i, n := range s.Cluster.Nodes {
		suits, liked := n.Feasible(r)
		if f.Nodes.Has(i) != suits || f.Preferred.Has(i) != liked {
			return fmt.Errorf("filter %s has node %s: %t, %t", r.Key, n.ID, f.Nodes.Has(i), f.Preferred.Has(i))
		}
	}
	return nil
}

// checkScores wants what is kept for each node and each want to be what would
// be worked out now, and the counted asks to be those of the jobs.
func (s *State) checkScores() error {
	if d := &s.Scorer.Demand; len(s.Cfg.Mix) == 0 {
		kinds, shares := d.Kinds, d.Shares
		recent := 0
		for _, e := range s.Jobs.EntryByID { // order-free: a count
			if e.Job != nil && e.Job.Revision > d.Window {
				recent++
			}
		}
		if recent != d.Recent {
			return fmt.Errorf("%d jobs are recent, counted are %d", recent, d.Recent)
		}
		s.Scorer.RecountDemand(s.Jobs.Asks())
		same := len(kinds) == len(d.Kinds) && shares == d.Shares
		for key, k := range kinds { // order-free: all of them
			same = same && d.Kinds[key] != nil && d.Kinds[key].Count == k.Count
		}
		if !same {
			return errors.New("the asks that were counted are not those of the jobs")
		}
	}
	for k := range s.Cluster.BlockMaxes {
		kept := *s.Cluster.BlockMaxAt(k)
		s.Cluster.BlockMaxes[k].Stale = true
		if now := s.Cluster.BlockMaxAt(k); kept != *now {
			return fmt.Errorf("the most that one of the nodes from %d on has left is %v, noted is %v", 64*k, *now, kept)
		}
	}
	for _, r := range s.Jobs.Shapes.Requests.ByKey { // order-free: each by itself
		at := s.Scorer.ScoreCaches.Of(r)
		if at != nil && !slices.Contains(s.Scorer.ScoreCaches.Requests, r) {
			return fmt.Errorf("the scores of the request %s are not in the pool", r.Key)
		}
		if at == nil || at.Layout != s.Cluster.Layout || at.Mix != s.Scorer.Demand.Mix.ID {
			continue
		}
		b := s.Scorer.RefreshScores(r)
		kept := score.ScoreCache{Costs: slices.Clone(b.Costs), Least: slices.Clone(b.Least)}
		if s.Scorer.RescoreAll(r); !slices.Equal(kept.Costs, b.Costs) || !slices.Equal(kept.Least, b.Least) {
			return fmt.Errorf("what nodes cost the want %s is not what was noted", r.Key)
		}
		for i, n := range s.Cluster.Nodes {
			if room := n.Schedulable() && n.RoomFor(r) > 0; room != (b.Costs[i] < score.NoFit) {
				return fmt.Errorf("node %s has room for the want %s: %t, by what it costs: %t", n.ID, r.Key, room, !room)
			}
		}
	}
	return nil
}
