package cluster

// changeLog is a short memory of nodes by position, so that whoever looks rarely
// needs to look only at what has changed.
type changeLog struct {
	Count int // since the beginning
	last  []int32
}

// keptChanges is how many changes are kept.
const keptChanges = 4096

func (c *changeLog) Add(at int) {
	if len(c.last) == 2*keptChanges {
		c.last = c.last[:copy(c.last, c.last[keptChanges:])]
	}
	c.last = append(c.last, int32(at))
	c.Count++
}

// HasGap says whether some change after the first seen ones is forgotten.
func (c *changeLog) HasGap(seen int) bool { return c.Count-seen > len(c.last) }

// Since lists the changes after the first seen ones.
func (c *changeLog) Since(seen int) []int32 { return c.last[len(c.last)-(c.Count-seen):] }

// reset drops the memory: the positions mean other nodes now.
func (c *changeLog) reset() {
	c.last = c.last[:0]
	c.Count++ // so that nobody seems to have seen everything
}
