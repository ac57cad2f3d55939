package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// jobTable has the jobs, their tenants and queues, and the lists in which jobs wait
// for something.
type jobTable struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer

	at             time.Time // when the last batch was learned of; zero without a clock
	entryByID      map[ares.JobID]*entry
	slots          []*entry // by number; nil where nobody has it
	freeSlots      []int
	tenants        map[string]*tenant
	queues         *queueTree
	shapes         shapes
	delayed        []*entry  // retrying or preempted, by the end of the delay
	arrays         []*array  // by ID
	clock          time.Time // as of which those with deadlines are in order
	urgencyTimers  timerHeap // of those with deadlines that wait
	deadlineTimers timerHeap // of those with deadlines that have not ended
	queueTimeouts  timerHeap // of those that wait for their first place, and not for ever
	running        runningIndex
	// regrouping are the gangs that lost a node and do not run again yet, by ID.
	restarting []*entry
	// returning are the jobs that are being moved, by ID.
	migrating      []*entry
	grantScratch   []queue.GPUAmount    // scratch of grantOf
	estimated      int                  // jobs of which it is known how long they run
	changedEntries []*entry             // changed by the batch under way
	delaysLearned  map[*entry]time.Time // of the snapshot under way: when their delays were learned of
}

func newJobTable(cfg *config.Config, queues *queueTree, cluster *cluster.Cluster, scorer *score.Scorer) *jobTable {
	return &jobTable{
		cfg: cfg, cluster: cluster, scorer: scorer, queues: queues,
		entryByID: map[ares.JobID]*entry{}, tenants: map[string]*tenant{}, shapes: newShapes(),
	}
}

// The order of the engine's jobs.
type (
	queueTree = queue.Tree[*entry]
	queueLeaf = queue.LeafQueue[*entry]
	queueItem = queue.Item[*entry]
)

// updateEntry alters an entry between taking its part out of the accounts and
// putting it back.
func (j *jobTable) updateEntry(e *entry, alter func()) {
	j.chargeJob(e, -1)
	j.countArray(e, -1)
	j.estimated -= e.estimates()
	before := e.job
	alter()
	j.estimated += e.estimates()
	if e.job != before {
		j.scorer.UncountDemand(&e.ask)
		j.dequeue(e)
		j.reshape(e)
		j.scorer.CountDemand(&e.ask)
	}
	j.chargeJob(e, +1)
	j.countArray(e, +1)
	if !e.changed {
		e.changed = true
		j.changedEntries = append(j.changedEntries, e)
	}
}

func (j *jobTable) entry(id ares.JobID) *entry {
	e := j.entryByID[id]
	if e == nil {
		e = &entry{id: id, slot: len(j.slots)}
		if last := len(j.freeSlots) - 1; last >= 0 {
			e.slot, j.freeSlots = j.freeSlots[last], j.freeSlots[:last]
		} else {
			j.slots = append(j.slots, nil)
		}
		j.slots[e.slot] = e
		j.entryByID[id] = e
	}
	return e
}

func (j *jobTable) entries() []*entry {
	all := make([]*entry, 0, len(j.entryByID))
	for _, e := range j.entryByID { // order-free: sorted right below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return all
}

// owner is the job that a seat on a node belongs to.
func (j *jobTable) owner(o cluster.Occupant) *entry { return j.slots[o.Owner] }
