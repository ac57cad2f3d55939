package recovery

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// The type `outcome` sums up the effects of node losses.
type outcome struct {
	hit, again    int // gangs that lost a node, and those of them that run again
	lost, moved   int // members that were on lost nodes, and members that are on other nodes now
	fewest        int // minimum number of members that had to move
	elsewhere     int // members whose rank is on another node
	fewer, broken int // members that elastic gangs continue without, and plans that broke a law
	down          time.Duration
}

// This method simulates the loss of the given nodes in a new cluster and adds
// up the effects.
func (o *outcome) measure(s *setting, nodes []string) error {
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	before := map[ares.JobID][]ares.SeatStatus{}
	if err := w.each(func(id ares.JobID, run *ares.Run) error {
		if a := run.Current(); a != nil && slices.ContainsFunc(a.Seats, func(h ares.SeatStatus) bool { return slices.Contains(nodes, h.Node) }) {
			before[id], w.hit[id] = a.Seats, true
		}
		return nil
	}); err != nil {
		return err
	}
	at := w.Now
	if err := w.lose(nodes); err != nil {
		return err
	}
	o.broken += w.broken
	o.fewest += w.fewest
	for id, seats := range before { // order-free: sums
		o.hit++
		run, _ := w.State.Run(id)
		if a := run.Current(); a != nil {
			o.again++
			o.down += a.StartedAt.Sub(at)
			o.fewer += len(seats) - len(a.Seats)
			o.count(seats, a, nodes)
		}
	}
	return nil
}

// This method compares a gang's nodes before and after the loss.
func (o *outcome) count(before []ares.SeatStatus, a *ares.Attempt, gone []string) {
	on := func(list []ares.SeatStatus, node string) bool {
		return slices.ContainsFunc(list, func(h ares.SeatStatus) bool { return h.Node == node })
	}
	for i := range before {
		if slices.Contains(gone, before[i].Node) {
			o.lost++
		}
	}
	for i := range a.Seats {
		if !on(before, a.Seats[i].Node) {
			o.moved++
		}
		if a.Seats[i].Node != before[i].Node {
			o.elsewhere++
		}
	}
}

// BenchmarkRecovery simulates the loss of each node and of each leaf, one at a
// time. It does so on clusters with some free capacity and on full clusters.
func BenchmarkRecovery(b *testing.B) {
	for b.Loop() {
		rows := [][]string{{"lost", "fleet", "gangs hit", "run again", "members lost", "moved", "fewest", "ranks elsewhere", "members fewer", "not running, s", "laws broken"}}
		for _, f := range []setting{
			{"a spare in each leaf", 5, 32, 0, false},
			{"a spare in each leaf, 20 pairs wait", 5, 32, 20, false},
			{"some leaves free", 4, 26, 0, false},
			{"full, elastic gangs", 4, 32, 20, true},
		} {
			for _, what := range []string{"a node", "a leaf"} {
				var o outcome
				for i := 0; i < spines*leaves; i += rounds.Sized(3, 40) {
					nodes := []string{nodeID(i, i%f.perLeaf)}
					if what == "a leaf" {
						nodes = nodes[:0]
						for n := range f.perLeaf {
							nodes = append(nodes, nodeID(i, n))
						}
					}
					if err := o.measure(&f, nodes); err != nil {
						b.Fatal(err)
					}
				}
				down := "-"
				if o.again > 0 {
					down = fmt.Sprintf("%.1f", (o.down / time.Duration(o.again)).Seconds())
				}
				row := []string{what, f.name}
				for _, n := range []int{o.hit, o.again, o.lost, o.moved, o.fewest, o.elsewhere, o.fewer} {
					row = append(row, fmt.Sprint(n))
				}
				rows = append(rows, append(row, down, fmt.Sprint(o.broken)))
				if o.moved < o.fewest {
					b.Errorf("%s, %s: %d members moved, and the oracle says %d at least", what, f.name, o.moved, o.fewest)
				}
			}
		}
		title := fmt.Sprintf("recovery: %d leaves of 4 or 5 nodes in %d spines, gangs of 4, 8 and 16 nodes; each third leaf loses a node, or all, in a world of its own", spines*leaves, spines)
		if err := rounds.Table(os.Stdout, title, rows); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRecoveryMovesTheFewest checks recovery when each leaf has a spare node
// and other jobs wait for freed nodes. Every gang must run again and move no
// more members than necessary.
func TestRecoveryMovesTheFewest(t *testing.T) {
	t.Parallel()
	s := setting{"a spare in each leaf, 20 pairs wait", 5, 32, 20, false}
	var o outcome
	for _, leaf := range []int{0, 7, 21} {
		if err := o.measure(&s, []string{nodeID(leaf, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if o.hit == 0 || o.again != o.hit || o.moved != o.fewest || o.moved != o.lost || o.elsewhere != o.moved || o.broken > 0 {
		t.Errorf("%+v", o)
	}
}
