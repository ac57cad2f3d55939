package loan

import (
	"cmp"
	"slices"
	"time"
)

// Cluster is what the hub knows of one cluster and one tenant. Amounts are devices, or GPU-seconds in a call of DivideHours.
type Cluster struct {
	Name     string
	Loan     int // what the cluster may use, according to the hub's record
	Used     int // what the tenant's jobs use there, as far as the hub knows
	Capacity int // what the cluster has
	Free     int // what is free there
	// Fixed is true if the loan cannot be changed now: the cluster is not connected.
	Fixed bool
	// Closed is true if the cluster gets no new jobs. It keeps what its own jobs need.
	Closed bool
}

// Want is a waiting job that could start in any one of some clusters.
type Want struct {
	Clusters []string // best first
	GPUs     int
	// Parts is true if a part of the devices is useful too: the want stands for several jobs.
	Parts bool
	Since time.Time // when the job was accepted
	ID    string    // makes the order total
}

// urgentAfter is how long a job waits before devices are collected for it. Before, a smaller job of the same tenant may take
// what is not enough for it.
const urgentAfter = 5 * time.Minute

// Divide returns what the loan of each cluster should be, in the order of the clusters.
//
// A cluster keeps what it uses. Then the waiting jobs get what they need, the oldest first: from the loan of a cluster that has
// enough, or else in their best cluster that is large enough. What remains stays where it is. What was lent to nobody is
// divided so that the smallest loan grows first.
//
// Invariants: the sum is at most the quota if the fixed loans and the use allow it, and otherwise no loan grows. A fixed loan
// does not change. A loan shrinks only if another cluster has a job for it, or if the quota was exceeded.
func Divide(quota int, clusters []Cluster, wants []Want, now time.Time) []int {
	d := division{clusters: clusters, out: make([]int, len(clusters)), left: quota, index: make(map[string]int, len(clusters))}
	for i := range clusters {
		c := &clusters[i]
		d.index[c.Name] = i
		if d.out[i] = min(c.Used, c.Loan); c.Fixed {
			d.out[i] = c.Loan
		}
		d.left -= d.out[i]
	}
	for _, w := range inOrder(wants, now) {
		d.serve(&w, now.Sub(w.Since) >= urgentAfter)
	}
	d.keep()
	d.spread()
	return d.out
}

// inOrder returns the wants by age. Those that are content with a part come last, because they leave nothing.
func inOrder(wants []Want, now time.Time) []Want {
	rank := func(w *Want) int {
		switch {
		case w.Parts:
			return 2
		case now.Sub(w.Since) >= urgentAfter:
			return 0
		}
		return 1
	}
	out := slices.Clone(wants)
	slices.SortStableFunc(out, func(a, b Want) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// division is the state of one call of Divide.
type division struct {
	clusters []Cluster
	index    map[string]int
	out      []int
	left     int // of the quota; negative if the clusters use more
}

// The method `serve` gives the devices of a want to one cluster.
func (d *division) serve(w *Want, urgent bool) {
	need := w.GPUs
	if w.Parts {
		need = min(need, d.left)
	}
	if need <= 0 || d.left <= 0 {
		return
	}
	best := -1
	for _, name := range w.Clusters {
		i, known := d.index[name]
		if !known || d.clusters[i].Fixed || !w.Parts && d.clusters[i].Capacity-d.out[i] < need {
			continue
		}
		if need <= d.left && d.clusters[i].Loan-d.out[i] >= need {
			best = i // nothing has to be moved
			break
		}
		if best < 0 {
			best = i
		}
	}
	if best < 0 {
		return
	}
	c := &d.clusters[best]
	if w.Parts {
		need = min(need, max(c.Capacity-d.out[best], 0))
	}
	if need > d.left {
		if !urgent || c.Free < need { // something else than the loan keeps the job waiting
			return
		}
		need = d.left // collected until it is enough
	}
	d.out[best] += need
	d.left -= need
}

// The method `keep` leaves what is not needed elsewhere where it is. If that is not possible for all, the largest parts that
// nobody uses get smaller first.
func (d *division) keep() {
	unused := func(i int) int {
		if c := &d.clusters[i]; !c.Fixed && !c.Closed {
			return max(c.Loan-d.out[i], 0)
		}
		return 0
	}
	var sum, most int
	for i := range d.clusters {
		sum, most = sum+unused(i), max(most, unused(i))
	}
	if d.left <= 0 || sum == 0 {
		return
	}
	// Find the highest level up to which the unused parts can stay.
	level, low := most, 0
	if sum > d.left {
		for low+1 < level { // sum(low) <= left < sum(level)
			if mid := (low + level) / 2; d.sumUpTo(mid, unused) <= d.left {
				low = mid
			} else {
				level = mid
			}
		}
		level = low
	}
	rest := min(sum, d.left) - d.sumUpTo(level, unused)
	for i := range d.clusters {
		had := unused(i)
		part := min(had, level)
		if had > level && rest > 0 {
			part, rest = part+1, rest-1
		}
		d.out[i] += part
		d.left -= part
	}
}

func (d *division) sumUpTo(level int, amount func(int) int) (sum int) {
	for i := range d.clusters {
		sum += min(amount(i), level)
	}
	return sum
}

// The method `spread` divides what was lent to nobody.
func (d *division) spread() {
	for d.left > 0 {
		var open []int
		for i := range d.clusters {
			if c := &d.clusters[i]; !c.Fixed && !c.Closed && d.out[i] < c.Capacity {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return
		}
		slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(d.out[a], d.out[b]) })
		// The smallest loans grow together, up to the next larger one or their cluster's capacity.
		lowest, next := d.out[open[0]], d.clusters[open[0]].Capacity
		n := 0
		for ; n < len(open) && d.out[open[n]] == lowest; n++ {
			next = min(next, d.clusters[open[n]].Capacity)
		}
		if n < len(open) {
			next = min(next, d.out[open[n]])
		}
		step := min(next-lowest, d.left/n)
		if step == 0 { // fewer devices than loans
			for _, i := range open[:d.left] {
				d.out[i]++
			}
			d.left = 0
			return
		}
		for _, i := range open[:n] {
			d.out[i] += step
		}
		d.left -= step * n
	}
}
