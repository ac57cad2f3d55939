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

// The fleet: leaves in rows, each next to those beside it in its spine.
const (
	spines = 4
	leaves = 16 // of a spine
	most   = 4  // nodes of a leaf that one gang may have
	gpus   = 8  // of a node
)

// How long things take, in virtual time.
const (
	lostAfter = ares.DefaultLostAfter // from the end of a session to the void of its seats
	dying     = 10 * time.Second      // for a living rank to be stopped and verified dead, at most
	starting  = 3 * time.Second       // for a rank to be claimed
)

// world is a fleet with gangs that run.
type world struct {
	*enginetest.Cluster

	perLeaf int // nodes

	hit    map[ares.JobID]bool // gangs that lost a node, and wait
	fewest int                 // members of those placed again that had to move
	broken int                 // plans that broke a law
}

func nodeID(l, n int) string { return fmt.Sprintf("n%03d-%d", l, n) }

// setting is what a world is made of: nodes of a leaf, gangs of 4, 8 and 16 whole
// nodes in turn, and of two nodes behind them, those that find no place waiting.
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
		w.Submit(ares.JobID(fmt.Sprintf("pair%03d", i)), ares.Spec{Members: 2, GPUs: gpus, Placement: ares.Placement{RequiredLevel: "leaf"}})
	}
	if err := w.decide(); err != nil {
		return nil, err
	}
	w.Now = w.Now.Add(starting)
	return w, w.claim()
}

// chart makes the nodes and the topology.
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

// decide decides until nothing changes, and holds every plan against the laws.
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

// judge adds up how few members of the gangs that lost a node had to move.
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

// claim starts everything that was placed.
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

// each calls do for every job, by ID.
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

// lose ends the sessions of nodes, takes their seats back when their time has come,
// and lets the living ranks of the same gangs die one by one; in between everybody
// who waits has the chance to take what comes free.
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
	slices.SortStableFunc(left, func(a, b seat) int { return cmp.Compare(a.rank, b.rank) }) // all gangs at once
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
