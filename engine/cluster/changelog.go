package cluster

// changeLog lists the positions of the nodes that changed last. A cache remembers the
// Count that it has seen and refreshes only the nodes that changed since. When the log
// has a gap, the cache must be rebuilt.
type changeLog struct {
	Count int     // number of changes ever
	last  []int32 // the latest of them
}

// keptChanges is the number of changes that are kept at least.
const keptChanges = 4096

// Add records a change of the node at a position.
func (c *changeLog) Add(at int) {
	if len(c.last) == 2*keptChanges {
		c.last = c.last[:copy(c.last, c.last[keptChanges:])]
	}
	c.last = append(c.last, int32(at))
	c.Count++
}

// HasGap reports whether a change after the first seen ones is no longer in the log.
func (c *changeLog) HasGap(seen int) bool { return c.Count-seen > len(c.last) }

// Since returns the changes after the first seen ones. The log must have no gap there.
func (c *changeLog) Since(seen int) []int32 { return c.last[len(c.last)-(c.Count-seen):] }

// reset empties the log, because positions now refer to other nodes.
func (c *changeLog) reset() {
	c.last = c.last[:0]
	c.Count++ // every reader has a gap now
}
