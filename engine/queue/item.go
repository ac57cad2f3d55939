package queue

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Item is a waiting job. What is exported is given by its owner before Push and
// must not change while it waits.
type Item[J any] struct {
	Owner J // first, so that it lies beside what its owner keeps before the item

	line   *line[J] // where it waits
	rank   uint64   // smaller is earlier: critical ones first, then by level
	lifted bool     // it has its rank by Due

	ID       string
	Priority int
	Accepted time.Time // ageing counts from here
	Revision int64     // of its submission
	Shape    int       // jobs of one shape fare alike in a decision
	Rank     uint64    // of a tree that is Ranked: smaller is earlier in its class
	// Due, with the Roof of its class, puts the item where it would be had it
	// waited for so long that it comes to the end of its class at that time,
	// unless it has waited for longer. A Roof of 0 is none. Both are for as long as
	// the job is in that class, and Due is not past.
	Due  time.Time
	Roof int
}

// Waiting says whether the item is in a queue.
func (it *Item[J]) Waiting() bool { return it.line != nil }

// Leaf is where the item waits, nil when it does not.
func (it *Item[J]) Leaf() *Leaf[J] {
	if it.line == nil {
		return nil
	}
	return it.line.leaf
}

// A rank holds twice the level upside down below one bit that critical items
// lack: those that Due lifts are between two levels.
const (
	belowCritical = 1 << 63
	levelBias     = 1 << 62
)

// critical is where that class begins. It is looked up once: a push asks for it.
var critical = ares.Critical.Floor()

// steps is how many whole ageing steps had passed at a time since 1970.
func (c Config) steps(at time.Time) int64 {
	ms, step := at.UnixMilli(), max(c.Step.Milliseconds(), 1)
	q := ms / step
	if ms%step < 0 {
		q--
	}
	return q
}

// rankOf is the place of a priority accepted at a time, before revision and ID.
func (c Config) rankOf(priority int, accepted time.Time) uint64 {
	level := int64(priority)
	if c.Step > 0 {
		level -= c.steps(accepted)
	}
	return rankAt(2*level, priority)
}

// rankAt is the place of twice a level.
func rankAt(level int64, priority int) uint64 {
	rank := uint64(levelBias - level)
	if priority < critical {
		rank |= belowCritical
	}
	return rank
}

// place is the rank of an item, and whether it has that by Due.
func place[J any](c Config, it *Item[J]) (rank uint64, lifted bool) {
	if c.Ranked {
		return givenRank(it.Priority, it.Rank), false
	}
	rank = c.rankOf(it.Priority, it.Accepted)
	if it.Roof == 0 || c.Step <= 0 {
		return rank, false
	}
	due := rankAt(2*(int64(it.Roof)-c.steps(it.Due))-1, it.Priority)
	return min(due, rank), due < rank
}

// MaxRank is the last rank an owner can give.
const MaxRank = 1<<classShift - 1

// classShift is where the class of a given rank begins.
const classShift = 60

// givenRank is the place of a priority with a rank given by the owner.
func givenRank(priority int, rank uint64) uint64 {
	class := classes - 1
	for int64(priority) < floors[class] && class > 0 {
		class--
	}
	return uint64(classes-1-class)<<classShift | min(rank, MaxRank)
}

// Aged is the priority of a rank at a time. What was not submitted as critical
// stays below it.
func (c Config) aged(rank uint64, now time.Time) int {
	level := (int64(levelBias) - int64(rank&^uint64(belowCritical))) >> 1
	if c.Step > 0 {
		level += c.steps(now)
	}
	if rank&belowCritical != 0 {
		return int(min(level, int64(critical-1)))
	}
	return int(max(level, int64(critical)))
}

// Aged is the priority of a job at now, when it asked for one and was accepted
// at a time.
func (c Config) Aged(priority int, accepted, now time.Time) int {
	if c.Ranked {
		return priority
	}
	return c.aged(c.rankOf(priority, accepted), now)
}

// ladder tells classes at one time.
type ladder struct {
	ranks [classes]uint64 // the last rank of each class, lowest class first
	keys  [classes]uint64 // the same as keys
}

const classes = 5

// floors is where each class begins, lowest first. They are looked up once: each
// pass asks for them.
var floors = func() (out [classes]int64) {
	for i, class := range ares.Classes() {
		out[i] = int64(class.Floor())
	}
	return out
}()

func (c Config) ladder(now time.Time) ladder {
	var out ladder
	if c.Ranked {
		for i := range out.ranks {
			out.ranks[i] = uint64(classes-1-i)<<classShift | MaxRank
		}
		out.keys = out.ranks
		return out
	}
	steps, base := int64(0), c.keyBase()
	if c.Step > 0 {
		steps = c.steps(now)
	}
	for i, floor := range floors {
		out.ranks[i] = belowCritical | uint64(levelBias-2*(floor-steps))
	}
	out.ranks[classes-1] = belowCritical - 1 // whatever their level
	out.ranks[0] = ^uint64(0)                // nobody is below the lowest
	for i, rank := range out.ranks {
		out.keys[i] = keyOf(rank, revisionMost, base)
	}
	return out
}

// class is the rank of the class of an item, 0 for the lowest.
func (l *ladder) class(rank uint64) int {
	for i := classes - 1; i > 0; i-- {
		if rank <= l.ranks[i] {
			return i
		}
	}
	return 0
}

// classOf is class without a look at the item, unless its key was cut off.
func classOf[J any](l *ladder, key uint64, of *Leaf[J]) int {
	if level := key >> revisionBits & levelMost; level == 0 || level == levelMost {
		return l.class(of.first().rank)
	}
	for i := classes - 1; i > 0; i-- {
		if key <= l.keys[i] {
			return i
		}
	}
	return 0
}

// until is the last key of a class, 0 when keys do not tell.
func (l *ladder) until(class int) uint64 {
	key := l.keys[class]
	if level := key >> revisionBits & levelMost; level == 0 || level == levelMost {
		return 0
	}
	return key
}

// Roof is where the class ends that a job is of at now, and when ageing takes
// it out of there; zero for never.
func (c Config) Roof(priority int, accepted, now time.Time) (roof int, until time.Time) {
	if priority >= critical {
		return critical + criticalWide, time.Time{}
	}
	aged := int64(c.Aged(priority, accepted, now))
	for _, floor := range floors[1:] {
		if aged >= floor {
			continue
		}
		if floor < int64(critical) && c.Step > 0 {
			crossed := floor - int64(priority) + c.steps(accepted)
			until = time.UnixMilli(crossed * max(c.Step.Milliseconds(), 1)).UTC()
		}
		return int(floor), until
	}
	return critical, time.Time{}
}

// criticalWide is how wide the highest class counts where its end matters.
const criticalWide = 1000
