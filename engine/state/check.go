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

// Check compares everything that the state keeps with a recount from the records: the
// queues, lists and accounts, the feasible nodes and the cached scores. It returns the
// first difference.
func (s *State) Check() error {
	s.Refresh()
	c := recount{pins: map[string]map[int]cluster.NUMAUse{}, taken: map[deviceKey]int{}, nodes: map[string]nodeUse{}, tenants: map[string]ares.Use{}, shapes: map[*job.Shape]int{}}
	if len(s.Jobs.ChangedEntries)+len(s.Cluster.Stale.Nodes) > 0 {
		return fmt.Errorf("something is left of a batch")
	}
	pending, delayed, estimated := 0, 0, 0
	for _, e := range s.Jobs.Entries() {
		estimated += e.Estimates()
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
	restarting := slices.DeleteFunc(s.Jobs.Entries(), func(e *job.Entry) bool { return !e.AwaitsRestart() })
	if !slices.Equal(restarting, s.Jobs.Restarting) {
		return fmt.Errorf("%d gangs that lost a node wait, %d are noted", len(restarting), len(s.Jobs.Restarting))
	}
	if estimated != s.Jobs.Estimated {
		return fmt.Errorf("of %d jobs it is known how long they run, counted are %d", estimated, s.Jobs.Estimated)
	}
	migrating := slices.DeleteFunc(s.Jobs.Entries(), func(e *job.Entry) bool { return !e.IsMigrating() })
	if !slices.Equal(migrating, s.Jobs.Migrating) {
		return fmt.Errorf("%d jobs are being moved, %d are noted", len(migrating), len(s.Jobs.Migrating))
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
	if err := c.checkNodes(s); err != nil {
		return err
	}
	if err := s.checkDemand(); err != nil {
		return err
	}
	if err := s.checkBlockMaxes(); err != nil {
		return err
	}
	return s.checkScores()
}

// checkFeasible compares the feasible and the preferred nodes of a request with the
// filters of every node.
func (s *State) checkFeasible(r *cluster.Request) error {
	f := &r.Constraints.Feasible
	if f.Layout != s.Cluster.Layout {
		return nil // stale: the next refresh builds it again
	}
	s.Cluster.RefreshFeasible(r)
	for i, n := range s.Cluster.Nodes {
		feasible, preferred := n.Feasible(r)
		if f.Nodes.Has(i) != feasible || f.Preferred.Has(i) != preferred {
			return fmt.Errorf("filter %s has node %s: %t, %t", r.Key, n.ID, f.Nodes.Has(i), f.Preferred.Has(i))
		}
	}
	return nil
}

// checkDemand compares the counted demand with the jobs. A configured mix needs no
// counts.
func (s *State) checkDemand() error {
	if len(s.Cfg.Mix) > 0 {
		return nil
	}
	d := &s.Scorer.Demand
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
	return nil
}

// checkBlockMaxes compares the largest free capacity of each block of 64 nodes with
// the nodes.
func (s *State) checkBlockMaxes() error {
	for k := range s.Cluster.BlockMaxes {
		kept := *s.Cluster.BlockMaxAt(k)
		s.Cluster.BlockMaxes[k].Stale = true
		if now := s.Cluster.BlockMaxAt(k); kept != *now {
			return fmt.Errorf("the most that one of the nodes from %d on has left is %v, noted is %v", 64*k, *now, kept)
		}
	}
	return nil
}

// checkScores compares the cached scores of each request with scores computed now.
func (s *State) checkScores() error {
	for _, r := range s.Jobs.Shapes.Requests.ByKey { // order-free: each by itself
		cached := s.Scorer.ScoreCaches.Of(r)
		if cached != nil && !slices.Contains(s.Scorer.ScoreCaches.Requests, r) {
			return fmt.Errorf("the scores of the request %s are not in the pool", r.Key)
		}
		if cached == nil || cached.Layout != s.Cluster.Layout || cached.Mix != s.Scorer.Demand.Mix.ID {
			continue
		}
		scores := s.Scorer.RefreshScores(r)
		kept := score.ScoreCache{Costs: slices.Clone(scores.Costs), Least: slices.Clone(scores.Least)}
		if s.Scorer.RescoreAll(r); !slices.Equal(kept.Costs, scores.Costs) || !slices.Equal(kept.Least, scores.Least) {
			return fmt.Errorf("what nodes cost the request %s is not what was noted", r.Key)
		}
		for i, n := range s.Cluster.Nodes {
			if room := n.Schedulable() && n.RoomFor(r) > 0; room != (scores.Costs[i] < score.NoFit) {
				return fmt.Errorf("node %s has room for the request %s: %t, by what it costs: %t", n.ID, r.Key, room, !room)
			}
		}
	}
	return nil
}
