package job

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Table has the jobs, their tenants and queues, and the lists in which jobs wait
// for something.
type Table struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer

	At             time.Time // when the last batch was learned of; zero without a clock
	EntryByID      map[ares.JobID]*Entry
	Slots          []*Entry // by number; nil where nobody has it
	freeSlots      []int
	Tenants        map[string]*Tenant
	Queues         *queueTree
	Shapes         shapes
	Delayed        []*Entry  // retrying or preempted, by the end of the delay
	arrays         []*array  // by ID
	clock          time.Time // as of which those with deadlines are in order
	urgencyTimers  timerHeap // of those with deadlines that wait
	deadlineTimers timerHeap // of those with deadlines that have not ended
	queueTimeouts  timerHeap // of those that wait for their first place, and not for ever
	Running        runningIndex
	// regrouping are the gangs that lost a node and do not run again yet, by ID.
	Restarting []*Entry
	// returning are the jobs that are being moved, by ID.
	Migrating         []*Entry
	allocationScratch []queue.GPUAmount    // scratch of grantOf
	Estimated         int                  // jobs of which it is known how long they run
	ChangedEntries    []*Entry             // changed by the batch under way
	DelaysLearned     map[*Entry]time.Time // of the snapshot under way: when their delays were learned of
}

func NewTable(cfg *config.Config, queues *queueTree, cluster *cluster.Cluster, scorer *score.Scorer) *Table {
	return &Table{
		cfg: cfg, cluster: cluster, scorer: scorer, Queues: queues,
		EntryByID: map[ares.JobID]*Entry{}, Tenants: map[string]*Tenant{}, Shapes: newShapes(),
	}
}

// The order of the engine's jobs.
type (
	queueTree = queue.Tree[*Entry]
	QueueLeaf = queue.LeafQueue[*Entry]
	queueItem = queue.Item[*Entry]
)

func (j *Table) Entry(id ares.JobID) *Entry {
	e := j.EntryByID[id]
	if e == nil {
		e = &Entry{ID: id, Slot: len(j.Slots)}
		if last := len(j.freeSlots) - 1; last >= 0 {
			e.Slot, j.freeSlots = j.freeSlots[last], j.freeSlots[:last]
		} else {
			j.Slots = append(j.Slots, nil)
		}
		j.Slots[e.Slot] = e
		j.EntryByID[id] = e
	}
	return e
}

func (j *Table) Entries() []*Entry {
	all := make([]*Entry, 0, len(j.EntryByID))
	for _, e := range j.EntryByID { // order-free: sorted right below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Owner is the job that a seat on a node belongs to.
func (j *Table) Owner(o cluster.Occupant) *Entry { return j.Slots[o.Owner] }

// Asks yields what every job adds to the demand, in no order.
func (j *Table) Asks() iter.Seq[*score.DemandAsk] {
	return func(yield func(*score.DemandAsk) bool) {
		for _, e := range j.EntryByID { // order-free: whoever asks sums
			if !yield(&e.Ask) {
				return
			}
		}
	}
}
