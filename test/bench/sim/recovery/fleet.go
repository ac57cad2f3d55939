package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// The leaves of each spine form a row. Each leaf is adjacent to its neighbours
// in the row of its spine.
const (
	spines = 4
	leaves = 16 // per spine
	most   = 4  // nodes of a leaf that one gang may use
	gpus   = 8  // per node
)

// These constants are durations in virtual time.
const (
	lostAfter = ares.DefaultLostAfter // from the end of a session until its seats are void
	dying     = 10 * time.Second      // upper bound for stopping a running rank and verifying its death
	starting  = 3 * time.Second       // until a rank is claimed
)

// A `world` is a simulated cluster with running gangs.
type world struct {
	*enginetest.Cluster

	perLeaf int // nodes per leaf

	hit    map[ares.JobID]bool // gangs that lost a node and are waiting
	fewest int                 // minimum number of members that had to move, over the gangs placed again
	broken int                 // plans that broke a law
}

func nodeID(l, n int) string { return fmt.Sprintf("n%03d-%d", l, n) }

// A `setting` describes a simulated cluster by its number of nodes per leaf and
// its jobs. The jobs are gangs of 4, 8 and 16 whole nodes in rotation, followed
// by gangs of two nodes. Jobs that do not fit stay in the queue.
type setting struct {
	name                    string
	perLeaf, gangs, waiting int
	elastic                 bool
}

func newWorld(s *setting) (*world, error) {
	w := &world{Cluster: enginetest.NewCluster(), perLeaf: s.perLeaf, hit: map[ares.JobID]bool{}}
	w.chart()
	for i := range s.gangs {
		spec := ares.Spec{Members: []int{4, 8, 16, 4}[i%4], GPUs: gpus}
		if s.elastic {
			spec.MinMembers = spec.Members / 2
		}
		w.Submit(ares.JobID(fmt.Sprintf("gang%03d", i)), spec)
	}
	for i := range s.waiting {
		w.Submit(ares.JobID(fmt.Sprintf("pair%03d", i)), ares.Spec{Members: 2, GPUs: gpus, Constraints: &ares.Placement{RequiredLevel: "leaf"}})
	}
	if err := w.decide(); err != nil {
		return nil, err
	}
	w.Now = w.Now.Add(starting)
	return w, w.claim()
}

// The method `chart` creates the nodes and the topology.
func (w *world) chart() {
	t := ares.Topology{MaxNodesPerLeaf: most}
	for s := range spines {
		t.Domains = append(t.Domains, ares.Domain{Name: fmt.Sprintf("s%d", s), Level: ares.LevelSpine})
		for l := range leaves {
			d := ares.Domain{Name: fmt.Sprintf("l%03d", s*leaves+l), Level: ares.LevelLeaf, Parent: fmt.Sprintf("s%d", s)}
			if l > 0 {
				d.Adjacent = []string{fmt.Sprintf("l%03d", s*leaves+l-1)}
			}
			t.Domains = append(t.Domains, d)
		}
	}
	w.PutEvents(ares.Event{Topology: &t})
	for l := range spines * leaves {
		for n := range w.perLeaf {
			node := ares.Node{ID: nodeID(l, n), CPUs: 64, MemoryMB: 512_000, Labels: map[string]string{"leaf": fmt.Sprintf("l%03d", l)}}
			for d := range gpus {
				node.Devices = append(node.Devices, ares.Device{
					ID: fmt.Sprintf("%s-%d", node.ID, d), Index: d, Type: "gpu", Model: "H100", MemoryMB: 80_000, Healthy: true,
				})
			}
			w.AddNode(node)
		}
	}
}

// The method `decide` makes decisions until nothing changes, and checks every
// plan against the engine's laws (invariants).
func (w *world) decide() error {
	for {
		plan := engine.Decide(w.State, w.Now)
		if plan.Empty() {
			return nil
		}
		if err := enginetest.CheckPlan(w.State, plan); err != nil {
			w.broken++
		}
		if err := w.judge(&plan); err != nil {
			return err
		}
		if err := w.ApplyPlan(plan); err != nil {
			return err
		}
	}
}

// The method `judge` considers each gang that lost a node and is placed again.
// It computes the minimum number of members that had to move, and adds it to
// the sum.
func (w *world) judge(plan *ares.Plan) error {
	taken := map[string]bool{}
	for i := range plan.Place {
		p := &plan.Place[i]
		if w.hit[p.Job] {
			delete(w.hit, p.Job)
			r, err := w.roomFor(p.Job, taken)
			if err != nil {
				return err
			}
			moved, ok := r.fewest(len(p.Seats))
			if !ok {
				return fmt.Errorf("no spine holds %s", p.Job)
			}
			w.fewest += moved
		}
		for k := range p.Seats {
			taken[p.Seats[k].Node] = true
		}
	}
	return nil
}

// This method claims every placed seat.
func (w *world) claim() error {
	return w.each(func(id ares.JobID, run *ares.Run) error {
		if run.Phase != ares.Scheduled {
			return nil
		}
		a := run.Current()
		for i := range a.Seats {
			if err := w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error { return r.Claim(j, a.Fence, i, a.Seats[i].Node, w.Now) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// This method calls the function `do` for every job, in order of ID.
func (w *world) each(do func(ares.JobID, *ares.Run) error) error {
	var ids []ares.JobID
	for job := range w.State.Jobs() {
		ids = append(ids, job.ID)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if run, ok := w.State.Run(id); ok {
			if err := do(id, &run); err != nil {
				return err
			}
		}
	}
	return nil
}

// This method ends the sessions of the given nodes. When lost_after has passed,
// it voids the seats on these nodes. Then the method ends the surviving ranks
// of the same gangs one by one. After each of these steps, any waiting job may
// use the freed capacity.
func (w *world) lose(nodes []string) error {
	for _, n := range nodes {
		w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: n}})
	}
	w.Now = w.Now.Add(lostAfter)
	for _, n := range nodes {
		if err := w.VoidNode(n); err != nil {
			return err
		}
	}
	type seat struct {
		id    ares.JobID
		fence ares.Fence
		rank  int
	}
	var left []seat
	err := w.each(func(id ares.JobID, run *ares.Run) error {
		if a := run.Last(); a != nil && a.Ended() {
			for i := range a.Seats {
				if !a.Seats[i].State.Settled() {
					left = append(left, seat{id, a.Fence, i})
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(left, func(a, b seat) int { return cmp.Compare(a.rank, b.rank) }) // interleave the gangs
	for i, s := range left {
		if err := w.UpdateRun(s.id, func(_ *ares.Job, r *ares.Run) error { return r.Release(s.fence, s.rank) }); err != nil {
			return err
		}
		w.Now = w.Now.Add(dying / time.Duration(len(left)))
		if i%4 == 0 {
			if err := w.decide(); err != nil {
				return err
			}
		}
	}
	if err := w.decide(); err != nil {
		return err
	}
	w.Now = w.Now.Add(starting)
	return w.claim()
}
