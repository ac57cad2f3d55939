package cluster

// changeLog lists the positions of the nodes that changed most recently. A cache remembers how many changes it has
// read. Later the cache refreshes only the nodes that changed after that. If the log has dropped a change that a
// cache has not read yet, the whole cache must be rebuilt.
type changeLog struct {
	Count int     // total number of changes
	last  []int32 // positions of the latest changes
}

// keptChanges is the minimum number of changes that the log retains.
const keptChanges = 4096

// Add appends a change of the node at the given position to the log.
func (c *changeLog) Add(at int) {
	if len(c.last) == 2*keptChanges {
		c.last = c.last[:copy(c.last, c.last[keptChanges:])]
	}
	c.last = append(c.last, int32(at))
	c.Count++
}

// HasGap reports whether the log has dropped a change that a reader has not read yet. The argument named `seen` is
// the number of changes that the reader has already read.
func (c *changeLog) HasGap(seen int) bool { return c.Count-seen > len(c.last) }

// Since returns all changes that a reader has not read yet. The argument `seen` is the number
// of changes that the reader has already read. Before the call, the caller must check that HasGap(seen)
// is false.
func (c *changeLog) Since(seen int) []int32 { return c.last[len(c.last)-(c.Count-seen):] }

// The method `reset` empties the log when the nodes get new positions, because the logged positions are then
// wrong.
func (c *changeLog) reset() {
	c.last = c.last[:0]
	c.Count++ // every reader has a gap now
}
