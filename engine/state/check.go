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

// Check computes all derived data of the state again from the records, and compares the results with the state. The
// derived data are the queues, lists and accounts, the feasible nodes and the cached scores. The error describes
// the first difference.
func (s *State) Check() error {
	s.Refresh()
	c := recount{pins: map[string]map[int]cluster.NUMAUse{}, taken: map[deviceKey]int{}, nodes: map[string]nodeUse{}, tenants: map[string]ares.Use{}, shapes: map[*job.Shape]int{}}
	if len(s.Jobs.ChangedEntries)+len(s.Cluster.Stale.Nodes) > 0 {
		return fmt.Errorf("some changes of the last batch were not applied")
	}
	pending, delayed, estimated, waiting := 0, 0, 0, 0
	for _, e := range s.Jobs.Entries() {
		estimated += e.Estimates()
		waiting += e.CountWaiting()
		if err := s.Jobs.CheckEntry(e); err != nil {
			return err
		}
		c.add(e)
		switch s.Jobs.QueueFor(e) {
		case job.InPending:
			pending++
		case job.InDelayed:
			delayed++
		case job.InNone:
		}
	}
	if queued, _ := s.Jobs.Queues.CountWaiting(); pending != queued || delayed != len(s.Jobs.Delayed) {
		return fmt.Errorf("%d jobs are ready and %d are delayed, but the queues contain %d ready and %d delayed jobs", pending, delayed, queued, len(s.Jobs.Delayed))
	}
	restarting := slices.DeleteFunc(s.Jobs.Entries(), func(e *job.Entry) bool { return !e.AwaitsRestart() })
	if !slices.Equal(restarting, s.Jobs.Restarting) {
		return fmt.Errorf("%d gangs wait to restart after losing a node, but the list has %d gangs", len(restarting), len(s.Jobs.Restarting))
	}
	if waiting != s.Jobs.Waiting {
		return fmt.Errorf("%d jobs are in a waiting phase, but the counter says %d", waiting, s.Jobs.Waiting)
	}
	if estimated != s.Jobs.Estimated {
		return fmt.Errorf("%d jobs have a runtime estimate, but the counter says %d", estimated, s.Jobs.Estimated)
	}
	migrating := slices.DeleteFunc(s.Jobs.Entries(), func(e *job.Entry) bool { return !e.IsMigrating() })
	if !slices.Equal(migrating, s.Jobs.Migrating) {
		return fmt.Errorf("%d jobs are being moved, but the list has %d jobs", len(migrating), len(s.Jobs.Migrating))
	}
	if !slices.IsSortedFunc(s.Jobs.Delayed, job.ByDue) {
		return fmt.Errorf("the queue of delayed jobs is not sorted")
	}
	if err := errors.Join(s.Jobs.CheckArrays(), s.Jobs.CheckStarts()); err != nil {
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

// checkFeasible compares the cached feasible and preferred nodes of a request with the
// result of the filters for every node.
func (s *State) checkFeasible(r *cluster.Request) error {
	f := &r.Constraints.Feasible
	if f.Layout != s.Cluster.Layout {
		return nil // the set is stale, and the next refresh rebuilds it
	}
	s.Cluster.RefreshFeasible(r)
	for i, n := range s.Cluster.Nodes {
		feasible, preferred := n.Feasible(r)
		if f.Nodes.Has(i) != feasible || f.Preferred.Has(i) != preferred {
			return fmt.Errorf("for request %s, the cached result for node %s is wrong: cached feasible=%t preferred=%t, computed feasible=%t preferred=%t", r.Key, n.ID, f.Nodes.Has(i), f.Preferred.Has(i), feasible, preferred)
		}
	}
	return nil
}

// checkDemand compares the counted demand with a recount over the jobs. If the workload mix is configured,
// demand is not counted.
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
		return fmt.Errorf("%d jobs were submitted recently, but the counter of recent jobs says %d", recent, d.Recent)
	}
	s.Scorer.RecountDemand(s.Jobs.Asks())
	same := len(kinds) == len(d.Kinds) && shares == d.Shares
	for key, k := range kinds { // order-free: compares all entries
		same = same && d.Kinds[key] != nil && d.Kinds[key].Count == k.Count
	}
	if !same {
		return errors.New("the cached demand differs from the sum of the jobs' requests")
	}
	return nil
}

// checkBlockMaxes recomputes the largest free capacity in each block of 64 nodes, and compares it with
// the recorded value.
func (s *State) checkBlockMaxes() error {
	for k := range s.Cluster.BlockMaxes {
		kept := *s.Cluster.BlockMaxAt(k)
		s.Cluster.BlockMaxes[k].Stale = true
		if now := s.Cluster.BlockMaxAt(k); kept != *now {
			return fmt.Errorf("the largest free capacity of the node block at index %d is wrong: computed %v, cached %v", 64*k, *now, kept)
		}
	}
	return nil
}

// checkScores compares the cached scores of each request with newly computed scores.
func (s *State) checkScores() error {
	for _, r := range s.Jobs.Shapes.Requests.ByKey { // order-free: entries are independent
		cached := s.Scorer.ScoreCaches.Of(r)
		if cached != nil && !slices.Contains(s.Scorer.ScoreCaches.Requests, r) {
			return fmt.Errorf("the scores of request %s are cached, but the list of cached requests does not contain this request", r.Key)
		}
		if cached == nil || cached.Layout != s.Cluster.Layout || cached.Mix != s.Scorer.Demand.Mix.ID {
			continue
		}
		scores := s.Scorer.RefreshScores(r)
		kept := score.ScoreCache{Costs: slices.Clone(scores.Costs), Least: slices.Clone(scores.Least)}
		if s.Scorer.RescoreAll(r); !slices.Equal(kept.Costs, scores.Costs) || !slices.Equal(kept.Least, scores.Least) {
			return fmt.Errorf("the cached scores of request %s differ from newly computed scores", r.Key)
		}
		for i, n := range s.Cluster.Nodes {
			if room := n.Schedulable() && n.RoomFor(r) > 0; room != (scores.Costs[i] < score.NoFit) {
				return fmt.Errorf("the cached score of node %s for request %s is wrong: computed fits=%t, cached fits=%t", n.ID, r.Key, room, !room)
			}
		}
	}
	return nil
}
