package topology

import "slices"

// sackLimit bounds the steps of filling a sack exactly.
const sackLimit = 1 << 11

// sack finds the cheapest nodes where cheap and roomy nodes compete: a knapsack.
type sack struct {
	least []cost // by nodes used and members placed
	taken []int  // by item, nodes used and members placed: members on that item
	items []item
}

// fill places members on at most limit nodes, or exactly so many, at the least
// cost. They fit. A sack of too many steps takes the roomiest nodes.
func (k *sack) fill(items []item, members, limit int, exactly bool, out *[]Pick) cost {
	limit = min(limit, members, len(items))
	row := members + 1
	table := (limit + 1) * row
	if len(items)*table > sackLimit {
		k.items = append(k.items[:0], items...)
		slices.SortStableFunc(k.items, func(a, b item) int { return b.room - a.room })
		return ones(k.items[:limit], members-limit, out)
	}
	k.least = append(k.least[:0], make([]cost, table)...)
	k.taken = append(k.taken[:0], make([]int, len(items)*table)...)
	for i := range items {
		k.offer(&items[i], k.taken[i*table:(i+1)*table], limit, members)
	}
	best := limit
	if !exactly {
		for n := limit; n > 0; n-- {
			if c, o := &k.least[n*row+members], &k.least[best*row+members]; c.nodes > 0 && (o.nodes == 0 || !o.less(c)) {
				best = n
			}
		}
	}
	return k.read(items, best, members, table, out)
}

// offer improves the table by what placing members on an item gains. An entry
// without nodes has not been reached, but for the first.
func (k *sack) offer(it *item, taken []int, limit, members int) {
	row := members + 1
	for n := limit; n > 0; n-- {
		for q := members; q >= n; q-- {
			at := n*row + q
			for x := 1; x <= min(it.room, q-(n-1)); x++ {
				from := &k.least[(n-1)*row+q-x]
				if from.nodes != n-1 || n == 1 && q != x {
					continue
				}
				c := cost{moved: from.moved + it.moved*x, waste: from.waste + it.waste*x, nodes: n}
				if k.least[at].nodes == 0 || c.less(&k.least[at]) {
					k.least[at], taken[at] = c, x
				}
			}
		}
	}
}

// read finds which items an entry of the table has, last first.
func (k *sack) read(items []item, nodes, members, table int, out *[]Pick) cost {
	c := k.least[nodes*(members+1)+members]
	if out == nil {
		return c
	}
	row := members + 1
	for i := len(items) - 1; nodes > 0; i-- {
		if x := k.taken[i*table+nodes*row+members]; x > 0 {
			*out = append(*out, Pick{items[i].node, x})
			nodes--
			members -= x
		}
	}
	return c
}
