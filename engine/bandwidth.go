package engine

import (
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// rationaleOf is what speaks for seats that were chosen by an earlier decision.
func (c *Cluster) rationaleOf(seats []ares.Seat) ares.Merit {
	m := ares.Merit{Bandwidth: c.bottleneck(seats)}
	lo, hi := len(c.nodes), 0
	for i := range seats {
		at := c.nodesByID[seats[i].Node].pos
		lo, hi = min(lo, at), max(hi, at)
	}
	if lo == hi {
		m.Level, m.Domain = ares.LevelNode, c.nodes[lo].id
		return m
	}
	for _, level := range slices.Backward(ares.Levels()) {
		if from, to := c.domains.EnclosingDomain(lo, level); from <= lo && hi < to && level.Rank() < ares.LevelNode.Rank() {
			m.Level, m.Domain = level, c.domains.DomainName(lo, level)
			break
		}
	}
	return m
}
