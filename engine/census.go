package engine

import (
	"fmt"
	"math/bits"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// gist is what the census needs of an open node, side by side with the others:
// a walk over all of them must not touch each node itself.
type gist struct {
	usable, free uint64
	profile      int32
	part         uint16 // the most that is left of a partly taken device
	open         bool
}

func gistOf(n *node) gist {
	g := gist{usable: n.usable, free: n.free, profile: int32(n.profile.id), open: true}
	for m := n.usable &^ n.free; m != 0; m &= m - 1 {
		g.part = max(g.part, uint16(max(wholeMilli-n.devices[bits.TrailingZeros64(m)].taken, 0)))
	}
	return g
}

// census is the nodes by what rules them out.
type census struct {
	state    *State
	shape    *shape
	want     *want
	reach    *set
	of       int
	counts   [hurdles]int
	best     int // most free devices of a node that has too few
	fitted   int // members that found room, all of them together
	groups   []group
	last     int       // of groups: the one that was noted last
	outlooks []outlook // by profile
	windows  []*window // that keep the shape's jobs off
	reserved []int     // nodes that each of these rules out first
}

// group is the nodes with the same hurdles.
type group struct {
	hurdles hurdleSet
	count   int
	nodes   []*node // the first of them that lack the fewest devices
	lacks   []int   // of each of these
}

// groupNodes is how many nodes of a group are remembered.
const groupNodes = 8

// look takes the census for a shape, with models left out for lack of quota.
func (s *State) look(sh *shape, ban uint64) *census {
	c := &census{state: s, shape: sh, want: s.without(sh.want, ban), outlooks: make([]outlook, len(s.profiles.all))}
	c.reach, _ = s.reach(sh, c.want)
	if c.reach == &s.reached { // scratch, which the next one to ask overwrites
		c.reach = new(s.reached.clone())
	}
	if len(s.calendar.windows) > 0 {
		c.windows = slices.Clone(s.bars(sh, &c.want.taste.filter.nodes))
		c.reserved = make([]int, len(c.windows))
	}
	w := c.want
	need := max(w.gpus, 1)
	last, v, tight := int32(-1), (*outlook)(nil), false
	for at := range s.gists {
		g := &s.gists[at]
		if !g.open || !c.reach.has(at) {
			c.count(s.nodes[at])
			continue
		}
		if g.profile != last {
			p := s.profiles.all[g.profile]
			last, v, tight = g.profile, c.outlook(p), p.cpus < w.cpus || p.memory < w.memory
		}
		if tight || w.devices() && bits.OnesCount64(v.fit&g.usable) < need {
			c.count(s.nodes[at])
			continue
		}
		var m hurdleSet
		free := bits.OnesCount64(v.fit & g.free)
		if w.gpus > 0 && free < need || w.milli > 0 && free == 0 && int(g.part) < w.milli {
			m |= busyDevices.bit()
		}
		if sp := &s.spare[at]; int(sp.cpus) < w.cpus {
			m |= busyCPUs.bit()
		} else if int(sp.memory) < w.memory {
			m |= busyMemory.bit()
		}
		if m == 0 {
			c.count(s.nodes[at])
			continue
		}
		c.of++
		c.note(at, m, free)
	}
	return c
}

func (c *census) outlook(p *profile) *outlook {
	v := &c.outlooks[p.id]
	if !v.known {
		*v = p.outlook(c.want, c.shape.want)
	}
	return v
}

// count looks at a node closely.
func (c *census) count(n *node) {
	if n.record == nil {
		return
	}
	c.of++
	m := c.hurdlesOf(n)
	if m == 0 {
		room := n.room(c.want)
		if c.shape.repelsItself() {
			room = min(room, 1)
		}
		c.fitted += room
	}
	c.note(n.at, m, c.freeOn(n))
}

// freeOn is how many devices of a node are free that suit.
func (c *census) freeOn(n *node) int { return bits.OnesCount64(c.outlook(n.profile).fit & n.free) }

// hurdlesOf is all that rules a node out.
func (c *census) hurdlesOf(n *node) hurdleSet {
	v := c.outlook(n.profile)
	m := n.hurdles(c.want, v)
	if m>>otherLabels&(1<<(otherKind-otherLabels)-1) == 0 && !c.reach.has(n.at) && !m.has(otherKind) && (!c.want.devices() || v.fit != 0) {
		m |= c.leftOut(n)
	}
	return m
}

// keptFor tells what is kept for others from what is taken. A node is counted by
// what would rule it out were nothing kept, and where nothing would as kept: who
// looks at it sees what is free.
func (c *census) keptFor(kept []taking) {
	var seen []*node
	for i := range kept {
		n := kept[i].node
		if slices.Contains(seen, n) {
			continue
		}
		seen = append(seen, n)
		apply := func(sign int) {
			for k := i; k < len(kept); k++ {
				if kept[k].node == n {
					kept[k].apply(sign)
				}
			}
		}
		as := c.hurdlesOf(n).first()
		apply(-1)
		is, free := c.hurdlesOf(n).first(), c.freeOn(n)
		apply(+1)
		if as == allClear {
			continue
		}
		if is == busyDevices {
			c.best = max(c.best, free)
		}
		if is == allClear {
			is = isKept
		}
		c.counts[as]--
		c.counts[is]++
	}
}

// leftOut is why a node is left out that suits.
func (c *census) leftOut(n *node) hurdleSet {
	if c.windowOf(n.at) >= 0 {
		return isReserved.bit()
	}
	return badCompany.bit()
}

// windowOf is the first window that rules a node out, -1 for none.
func (c *census) windowOf(at int) int {
	return slices.IndexFunc(c.windows, func(v *window) bool { return v.nodes.has(at) })
}

// note counts a node with its hurdles and the devices it has free.
func (c *census) note(at int, m hurdleSet, free int) {
	first := m.first()
	c.counts[first]++
	if first == isReserved {
		c.reserved[c.windowOf(at)]++
	}
	if first == busyDevices {
		c.best = max(c.best, free)
	}
	if m == 0 {
		return
	}
	if c.last >= len(c.groups) || c.groups[c.last].hurdles != m { // neighbours are often alike
		c.last = slices.IndexFunc(c.groups, func(g group) bool { return g.hurdles == m })
		if c.last < 0 {
			c.last = len(c.groups)
			c.groups = append(c.groups, group{hurdles: m})
		}
	}
	g := &c.groups[c.last]
	g.count++
	lack := c.want.gpus - free
	if len(g.nodes) == groupNodes && lack >= g.lacks[groupNodes-1] {
		return
	}
	k := len(g.nodes)
	for k > 0 && g.lacks[k-1] > lack {
		k--
	}
	g.nodes, g.lacks = slices.Insert(g.nodes, k, c.state.nodes[at]), slices.Insert(g.lacks, k, lack)
	if len(g.nodes) > groupNodes {
		g.nodes, g.lacks = g.nodes[:groupNodes], g.lacks[:groupNodes]
	}
}

// crowding says what a census found: the nodes by what rules them out, each
// under the first thing that does, and how many members found room. It is for a
// job that found no place, so it always has something to say. model is the
// want's as the job spells it.
func (s *State) crowding(c *census, model string) []ares.Blocker {
	if c.of == 0 {
		return []ares.Blocker{{Kind: kindNodes, Detail: "there are no nodes yet"}}
	}
	if s.overLeaf(c.want) {
		return []ares.Blocker{{Kind: kindNodes, Detail: fmt.Sprintf("one job may take %d %ss of a leaf at most, and one member asks for %d",
			s.topology.MaxGPUsPerLeaf, c.want.device(), c.want.gpus)}}
	}
	var out []ares.Blocker
	for h, count := range c.counts {
		if hurdle(h) == isReserved {
			for i, n := range c.reserved {
				if n > 0 {
					out = append(out, ares.Blocker{Kind: kindReserved, Count: n, Of: c.of, Detail: s.calendar.words(c.windows[i])})
				}
			}
			continue
		}
		if count > 0 && hurdle(h) != allClear {
			out = append(out, ares.Blocker{Kind: hurdle(h).kind(), Count: count, Of: c.of, Detail: c.words(hurdle(h), model)})
		}
	}
	if c.shape.members > 1 && c.fitted > 0 {
		out = append(out, s.apart(c))
	}
	return out
}
