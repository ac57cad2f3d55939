package topology

import (
	"cmp"
	"slices"
)

// gbpsBetween returns the lowest bandwidth on the paths between some leaves, or 0 if it is unknown. The arguments
// `depth` and `top` identify the narrowest domain that contains all of the leaves.
func (t *Tree) gbpsBetween(leaves []int32, depth, top int) int {
	least := t.domains[depth][top].gbps
	if t.maxGbps == 0 || depth == leaf {
		return least
	}
	for _, l := range leaves {
		least = min(least, t.uplinkGbps(int(l), depth))
	}
	return least
}

// uplinkGbps returns the lowest bandwidth of the switches from a leaf up to the given depth. The switch at that depth
// is not included. The result is 0 if a switch is unknown.
func (t *Tree) uplinkGbps(l, depth int) int {
	least := t.domains[leaf][l].gbps
	for d := leaf - 1; d > depth; d-- {
		least = min(least, t.domains[d][t.ancestors[l][d]].gbps)
	}
	return least
}

// The method `fastest` returns up to `most` leaves of the domain with the highest bandwidth, among those that have
// capacity for at least `need` members. If all leaves of the cluster have the same bandwidth, it returns none.
func (z *leafSetSearch) fastest(s *search, need, most int) []leafOption {
	if !s.tree.unevenGbps {
		return nil
	}
	z.fast = z.fast[:0]
	for _, r := range z.byBound {
		if r.members >= need {
			z.fast = append(z.fast, fastLeaf{r, s.tree.uplinkGbps(r.leaf, z.depth)})
		}
	}
	slices.SortStableFunc(z.fast, func(a, b fastLeaf) int {
		return cmp.Or(cmp.Compare(b.gbps, a.gbps), cmp.Compare(a.option.members, b.option.members))
	})
	out := make([]leafOption, 0, most)
	for i := range z.fast[:min(most, len(z.fast))] {
		out = append(out, z.fast[i].option)
	}
	return out
}

// fastLeaf is a leaf with its bandwidth.
type fastLeaf struct {
	option leafOption
	gbps   int
}

// Latency returns the latency between two nodes: that of the narrowest domain that contains both. The latency of a
// node to itself is 0.
func (t *Tree) Latency(a, b int) int {
	if a == b {
		return 0
	}
	leaves := []int32{t.leafOf[a], t.leafOf[b]}
	slices.Sort(leaves)
	depth, top := t.commonDomain(leaves)
	return t.domains[depth][top].latencyNanos
}
