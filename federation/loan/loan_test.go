package loan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ares-scheduler/ares/federation/loan"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func drawClusters(t *rapid.T) []loan.Cluster {
	out := make([]loan.Cluster, rapid.IntRange(1, 5).Draw(t, "clusters"))
	for i := range out {
		c := &out[i]
		c.Name = fmt.Sprintf("c%d", i)
		c.Capacity = rapid.IntRange(0, 32).Draw(t, "capacity")
		c.Loan = rapid.IntRange(0, 24).Draw(t, "loan")
		c.Used = rapid.IntRange(0, 24).Draw(t, "used")
		c.Free = rapid.IntRange(0, c.Capacity).Draw(t, "free")
		c.Fixed, c.Closed = rapid.IntRange(0, 4).Draw(t, "fixed") == 0, rapid.IntRange(0, 4).Draw(t, "closed") == 0
	}
	return out
}

func drawWants(t *rapid.T, clusters []loan.Cluster) []loan.Want {
	out := make([]loan.Want, rapid.IntRange(0, 6).Draw(t, "wants"))
	for i := range out {
		w := &out[i]
		w.ID, w.GPUs, w.Parts = fmt.Sprintf("w%d", i), rapid.IntRange(0, 16).Draw(t, "gpus"), rapid.IntRange(0, 3).Draw(t, "parts") == 0
		w.Since = noon.Add(-time.Duration(rapid.IntRange(0, 10).Draw(t, "age")) * time.Minute)
		for range rapid.IntRange(1, 3).Draw(t, "choices") {
			w.Clusters = append(w.Clusters, clusters[rapid.IntRange(0, len(clusters)-1).Draw(t, "choice")].Name)
		}
	}
	return out
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// TestQuota checks that the loans never exceed the quota together. Where the fixed loans and the use exceed it already, no loan
// grows.
func TestQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters := drawClusters(t)
		quota := rapid.IntRange(0, 64).Draw(t, "quota")
		got := loan.Divide(quota, clusters, drawWants(t, clusters), noon)
		floor := 0
		for i, c := range clusters {
			switch {
			case c.Fixed && got[i] != c.Loan:
				t.Fatalf("the fixed loan of %s became %d: %+v", c.Name, got[i], c)
			case got[i] < min(c.Used, c.Loan):
				t.Fatalf("the loan of %s became %d, less than it uses: %+v", c.Name, got[i], c)
			}
			if c.Fixed {
				floor += c.Loan
			} else {
				floor += min(c.Used, c.Loan)
			}
		}
		if sum(got) > max(quota, floor) {
			t.Fatalf("%v is more than the quota %d: %+v", got, quota, clusters)
		}
		for i, c := range clusters {
			if floor >= quota && got[i] > c.Loan {
				t.Fatalf("the quota %d is exceeded, and %s gets %d: %+v", quota, c.Name, got[i], c)
			}
		}
	})
}

// TestNoChurn checks that the division settles: when the clusters have the loans, it does not move them back and forth.
func TestNoChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters := drawClusters(t)
		wants := drawWants(t, clusters)
		quota := rapid.IntRange(0, 64).Draw(t, "quota")
		for i := range clusters { // a cluster never uses more than the record says
			clusters[i].Used = min(clusters[i].Used, clusters[i].Loan)
		}
		var last []int
		for range len(wants) + 3 {
			got := loan.Divide(quota, clusters, wants, noon)
			if slices.Equal(got, last) {
				return
			}
			last = got
			for i := range clusters {
				clusters[i].Loan = got[i]
			}
		}
		t.Fatalf("the loans do not settle: %v, %+v, %+v", last, clusters, wants)
	})
}

// TestNothingMovesWithoutNeed checks that a loan shrinks only for a job of another cluster, or because the quota is exceeded.
func TestNothingMovesWithoutNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters := drawClusters(t)
		for i := range clusters {
			clusters[i].Closed, clusters[i].Used = false, min(clusters[i].Used, clusters[i].Loan)
		}
		lent := 0
		for _, c := range clusters {
			lent += c.Loan
		}
		quota := lent + rapid.IntRange(0, 10).Draw(t, "more")
		for i, v := range loan.Divide(quota, clusters, nil, noon) {
			if v < clusters[i].Loan {
				t.Fatalf("the loan of %s shrank from %d to %d", clusters[i].Name, clusters[i].Loan, v)
			}
		}
	})
}

// TestNoJobIsStuck checks that the oldest job gets a loan that is large enough for it, if the quota that others do not use is
// enough and a cluster is large enough.
func TestNoJobIsStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters := drawClusters(t)
		for i := range clusters {
			clusters[i].Used = min(clusters[i].Used, clusters[i].Loan)
		}
		quota := rapid.IntRange(0, 64).Draw(t, "quota")
		w := loan.Want{ID: "first", GPUs: rapid.IntRange(1, 16).Draw(t, "gpus"), Since: noon.Add(-time.Hour)}
		left, possible := quota, map[string]int{}
		for _, c := range clusters {
			w.Clusters = append(w.Clusters, c.Name)
			if c.Fixed {
				left -= c.Loan
				continue
			}
			left -= c.Used
			if c.Capacity-c.Used >= w.GPUs {
				possible[c.Name] = c.Used + w.GPUs
			}
		}
		got := loan.Divide(quota, clusters, append(drawWants(t, clusters), w), noon)
		if left < w.GPUs || len(possible) == 0 {
			return
		}
		for i, c := range clusters {
			if need, ok := possible[c.Name]; ok && got[i] >= need {
				return
			}
		}
		t.Fatalf("no cluster may start the oldest job: %v of %d, %+v", got, quota, clusters)
	})
}

func TestDivide(t *testing.T) {
	idle := func(name string, lent int) loan.Cluster {
		return loan.Cluster{Name: name, Loan: lent, Capacity: 8, Free: 8}
	}
	busy := func(name string, lent, used int) loan.Cluster {
		return loan.Cluster{Name: name, Loan: lent, Used: used, Capacity: 8, Free: 8 - used}
	}
	young, old := noon.Add(-time.Second), noon.Add(-time.Hour)
	for _, c := range []struct {
		name     string
		quota    int
		clusters []loan.Cluster
		wants    []loan.Want
		want     []int
	}{
		{"what nobody has is divided", 8, []loan.Cluster{idle("a", 0), idle("b", 0)}, nil, []int{4, 4}},
		{"an odd device", 9, []loan.Cluster{idle("a", 0), idle("b", 0)}, nil, []int{5, 4}},
		{"the smallest loan grows first", 8, []loan.Cluster{idle("a", 5), idle("b", 0)}, nil, []int{5, 3}},
		{"not more than a cluster has", 20, []loan.Cluster{idle("a", 0), idle("b", 0)}, nil, []int{8, 8}},
		{"an unused loan stays", 8, []loan.Cluster{idle("a", 8), idle("b", 0)}, nil, []int{8, 0}},
		{"a job moves it", 8, []loan.Cluster{idle("a", 8), idle("b", 0)}, []loan.Want{{Clusters: []string{"b"}, GPUs: 3, Since: young}}, []int{5, 3}},
		{"it moves nothing if a loan is there", 8, []loan.Cluster{idle("a", 0), idle("b", 8)}, []loan.Want{{Clusters: []string{"a", "b"}, GPUs: 3, Since: young}}, []int{0, 8}},
		{"two jobs for all of it: the older one first", 8, []loan.Cluster{idle("a", 4), idle("b", 4)}, []loan.Want{
			{Clusters: []string{"a"}, GPUs: 8, Since: young}, {Clusters: []string{"b"}, GPUs: 8, Since: young.Add(-1)},
		}, []int{0, 8}},
		{"a small job passes a large one", 8, []loan.Cluster{busy("a", 8, 6), idle("b", 0)}, []loan.Want{
			{Clusters: []string{"b"}, GPUs: 8, Since: young.Add(-1)}, {Clusters: []string{"a"}, GPUs: 2, Since: young},
		}, []int{8, 0}},
		{"but not one that waits for long", 8, []loan.Cluster{busy("a", 8, 6), idle("b", 0)}, []loan.Want{
			{Clusters: []string{"b"}, GPUs: 8, Since: old}, {Clusters: []string{"a"}, GPUs: 2, Since: young},
		}, []int{6, 2}},
		{"unless its cluster has no room for it", 8, []loan.Cluster{busy("a", 8, 6), {Name: "b", Capacity: 8, Free: 7}}, []loan.Want{
			{Clusters: []string{"b"}, GPUs: 8, Since: old}, {Clusters: []string{"a"}, GPUs: 2, Since: young},
		}, []int{8, 0}},
		{"several jobs share what is left", 4, []loan.Cluster{busy("a", 4, 1), idle("b", 0)}, []loan.Want{{Clusters: []string{"b"}, GPUs: 100, Parts: true}}, []int{1, 3}},
		{"a silent cluster keeps its loan", 8, []loan.Cluster{{Name: "a", Loan: 6, Fixed: true}, idle("b", 2)}, []loan.Want{{Clusters: []string{"b"}, GPUs: 4, Since: old}}, []int{6, 2}},
		{"a lower quota takes from the largest", 4, []loan.Cluster{idle("a", 6), idle("b", 2)}, nil, []int{2, 2}},
		{"a drained cluster gives back what it does not use", 8, []loan.Cluster{{Name: "a", Loan: 8, Used: 2, Capacity: 8, Closed: true}, idle("b", 0)}, nil, []int{2, 6}},
	} {
		if got := loan.Divide(c.quota, c.clusters, c.wants, noon); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
