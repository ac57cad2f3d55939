package job

import (
	"cmp"
	"iter"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/queue"
)

// Table holds the jobs, their tenants, queues and Shapes, and the indexes and timers over
// them. A Table has one owner and is not safe for concurrent use.
type Table struct {
	cfg     *config.Config
	cluster *cluster.Cluster
	scorer  *score.Scorer

	At        time.Time // time of the last batch; zero without a clock
	EntryByID map[ares.JobID]*Entry
	Slots     []*Entry // by Entry.Slot; nil where free
	freeSlots []int
	Tenants   map[string]*Tenant
	Queues    *queueTree
	Shapes    shapes
	arrays    []*Array // by ID

	Delayed []*Entry    // retrying or preempted jobs; sorted by ByDue
	clock   time.Time   // the time that positions and begin times were last compared with
	waiting waitingList // pending jobs that need two or more GPUs, longest waiting first
	overdue map[*QueueLeaf]*Overdue
	heaps
	starts     startIndex // of jobs with start conditions
	Running    runningIndex
	Restarting []*Entry // gangs that lost a node and do not run again yet, by ID
	Migrating  []*Entry // jobs that are being migrated, by ID
	jobCounts

	protections map[ares.JobID]*ares.Protection // nil until a job has one

	allocationScratch []queue.GPUAmount    // scratch memory of AllocationOf
	ChangedEntries    []*Entry             // entries changed by the current batch
	DelaysLearned     map[*Entry]time.Time // for the current snapshot: Entry.DelayLearnedAt
}

// jobCounts holds numbers of jobs. UpdateEntry keeps them up to date.
type jobCounts struct {
	Estimated int // jobs with a predicted or limited runtime
	Waiting   int // jobs in a waiting phase, whatever they wait for
}

// The type `heaps` holds the timers of all jobs.
type heaps struct {
	positionTimers timerHeap // of pending jobs whose position changes with time
	deadlineTimers timerHeap // of jobs with deadlines that have not ended
	queueTimeouts  timerHeap // of pending jobs with max_queue_minutes that were never placed
}

// startIndex is the index over jobs with start conditions.
type startIndex struct {
	begins []*Entry // jobs with a begin time, by that time and ID
	begun  int      // Invariant: begins[:begun] are those whose begin time is not after Table.clock
	unmet  []*Entry // jobs that are cancelled because a dependency can never be met, by ID

	dependents map[ares.JobID][]*Entry // by the job that they depend on, in no order

	singletons int                  // live jobs with the dependency singleton
	byName     map[nameKey][]*Entry // unfinished jobs, by acceptance; nil until there is a singleton
}

// nameKey identifies the jobs that a singleton waits for.
type nameKey struct{ tenant, owner, name string }

// NewTable returns a table without jobs.
func NewTable(cfg *config.Config, queues *queueTree, cluster *cluster.Cluster, scorer *score.Scorer) *Table {
	return &Table{
		cfg: cfg, cluster: cluster, scorer: scorer, Queues: queues,
		EntryByID: map[ares.JobID]*Entry{}, Tenants: map[string]*Tenant{}, Shapes: newShapes(),
		overdue: map[*QueueLeaf]*Overdue{},
	}
}

// These types are the queue types of package queue, with entries as items.
type (
	queueTree = queue.Tree[*Entry]
	QueueLeaf = queue.LeafQueue[*Entry]
	queueItem = queue.Item[*Entry]
)

// Entry returns the entry of a job, and creates it when necessary.
func (j *Table) Entry(id ares.JobID) *Entry {
	e := j.EntryByID[id]
	if e == nil {
		e = &Entry{ID: id, Slot: len(j.Slots), Held: noHoldings}
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

// Entries returns all entries, sorted by ID.
func (j *Table) Entries() []*Entry {
	all := make([]*Entry, 0, len(j.EntryByID))
	for _, e := range j.EntryByID { // order-free: sorted right below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *Entry) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Owner returns the job that an occupant of a node belongs to.
func (j *Table) Owner(o cluster.Occupant) *Entry { return j.Slots[o.Owner] }

// The iterator Asks yields every job's part of the demand, in no particular order.
func (j *Table) Asks() iter.Seq[*score.DemandAsk] {
	return func(yield func(*score.DemandAsk) bool) {
		for _, e := range j.EntryByID { // order-free: callers sum
			if !yield(&e.Ask) {
				return
			}
		}
	}
}
