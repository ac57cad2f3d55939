package queue

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Item is a waiting job. What is exported is given by its owner before Push and
// must not change while it waits.
type Item[J any] struct {
	Owner J // first, so that it lies beside what its owner keeps before the item

	queue    *shapeQueue[J] // where it waits
	orderKey uint64         // smaller is earlier: critical ones first, then by level
	boosted  bool           // it has its rank by Due

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
func (it *Item[J]) Waiting() bool { return it.queue != nil }

// Leaf is where the item waits, nil when it does not.
func (it *Item[J]) Leaf() *Leaf[J] {
	if it.queue == nil {
		return nil
	}
	return it.queue.leaf
}

// A rank holds twice the level upside down below one bit that critical items
// lack: those that Due lifts are between two levels.
const (
	notCritical = 1 << 63
	levelBias   = 1 << 62
)

// criticalFloor is where that class begins. It is looked up once: a push asks for it.
var criticalFloor = ares.Critical.Floor()

// ageingSteps is how many whole ageing steps had passed at a time since 1970.
func (c Config) ageingSteps(at time.Time) int64 {
	ms, step := at.UnixMilli(), max(c.Step.Milliseconds(), 1)
	q := ms / step
	if ms%step < 0 {
		q--
	}
	return q
}

// agedKey is the place of a priority accepted at a time, before revision and ID.
func (c Config) agedKey(priority int, accepted time.Time) uint64 {
	level := int64(priority)
	if c.Step > 0 {
		level -= c.ageingSteps(accepted)
	}
	return levelKey(2*level, priority)
}

// levelKey is the place of twice a level.
func levelKey(level int64, priority int) uint64 {
	rank := uint64(levelBias - level)
	if priority < criticalFloor {
		rank |= notCritical
	}
	return rank
}

// itemKey is the rank of an item, and whether it has that by Due.
func itemKey[J any](c Config, it *Item[J]) (rank uint64, lifted bool) {
	if c.Ranked {
		return sortedKey(it.Priority, it.Rank), false
	}
	rank = c.agedKey(it.Priority, it.Accepted)
	if it.Roof == 0 || c.Step <= 0 {
		return rank, false
	}
	due := levelKey(2*(int64(it.Roof)-c.ageingSteps(it.Due))-1, it.Priority)
	return min(due, rank), due < rank
}

// MaxRank is the last rank an owner can give.
const MaxRank = 1<<classShift - 1

// classShift is where the class of a given rank begins.
const classShift = 60

// sortedKey is the place of a priority with a rank given by the owner.
func sortedKey(priority int, rank uint64) uint64 {
	class := classCount - 1
	for int64(priority) < classFloors[class] && class > 0 {
		class--
	}
	return uint64(classCount-1-class)<<classShift | min(rank, MaxRank)
}

// Aged is the priority of a rank at a time. What was not submitted as critical
// stays below it.
func (c Config) priorityOfKey(rank uint64, now time.Time) int {
	level := (int64(levelBias) - int64(rank&^uint64(notCritical))) >> 1
	if c.Step > 0 {
		level += c.ageingSteps(now)
	}
	if rank&notCritical != 0 {
		return int(min(level, int64(criticalFloor-1)))
	}
	return int(max(level, int64(criticalFloor)))
}

// Aged is the priority of a job at now, when it asked for one and was accepted
// at a time.
func (c Config) Aged(priority int, accepted, now time.Time) int {
	if c.Ranked {
		return priority
	}
	return c.priorityOfKey(c.agedKey(priority, accepted), now)
}

// classBounds tells classes at one time.
type classBounds struct {
	lastKey    [classCount]uint64 // the last rank of each class, lowest class first
	lastPrefix [classCount]uint64 // the same as keys
}

const classCount = 5

// classFloors is where each class begins, lowest first. They are looked up once: each
// pass asks for them.
var classFloors = func() (out [classCount]int64) {
	for i, class := range ares.Classes() {
		out[i] = int64(class.Floor())
	}
	return out
}()

func (c Config) classBoundsAt(now time.Time) classBounds {
	var out classBounds
	if c.Ranked {
		for i := range out.lastKey {
			out.lastKey[i] = uint64(classCount-1-i)<<classShift | MaxRank
		}
		out.lastPrefix = out.lastKey
		return out
	}
	steps, base := int64(0), c.prefixBase()
	if c.Step > 0 {
		steps = c.ageingSteps(now)
	}
	for i, floor := range classFloors {
		out.lastKey[i] = notCritical | uint64(levelBias-2*(floor-steps))
	}
	out.lastKey[classCount-1] = notCritical - 1 // whatever their level
	out.lastKey[0] = ^uint64(0)                 // nobody is below the lowest
	for i, rank := range out.lastKey {
		out.lastPrefix[i] = keyPrefix(rank, maxRevisionBits, base)
	}
	return out
}

// classOfKey is the rank of the class of an item, 0 for the lowest.
func (l *classBounds) classOfKey(rank uint64) int {
	for i := classCount - 1; i > 0; i-- {
		if rank <= l.lastKey[i] {
			return i
		}
	}
	return 0
}

// headClass is class without a look at the item, unless its key was cut off.
func headClass[J any](l *classBounds, key uint64, of *Leaf[J]) int {
	if level := key >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return l.classOfKey(of.first().orderKey)
	}
	for i := classCount - 1; i > 0; i-- {
		if key <= l.lastPrefix[i] {
			return i
		}
	}
	return 0
}

// lastPrefixOf is the last key of a class, 0 when keys do not tell.
func (l *classBounds) lastPrefixOf(class int) uint64 {
	key := l.lastPrefix[class]
	if level := key >> revisionBits & maxLevelBits; level == 0 || level == maxLevelBits {
		return 0
	}
	return key
}

// Roof is where the class ends that a job is of at now, and when ageing takes
// it out of there; zero for never.
func (c Config) Roof(priority int, accepted, now time.Time) (roof int, until time.Time) {
	if priority >= criticalFloor {
		return criticalFloor + criticalWidth, time.Time{}
	}
	aged := int64(c.Aged(priority, accepted, now))
	for _, floor := range classFloors[1:] {
		if aged >= floor {
			continue
		}
		if floor < int64(criticalFloor) && c.Step > 0 {
			crossed := floor - int64(priority) + c.ageingSteps(accepted)
			until = time.UnixMilli(crossed * max(c.Step.Milliseconds(), 1)).UTC()
		}
		return int(floor), until
	}
	return criticalFloor, time.Time{}
}

// criticalWidth is how wide the highest class counts where its end matters.
const criticalWidth = 1000
