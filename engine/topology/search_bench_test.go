package topology_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ares-scheduler/ares/engine/topology"
)

// freeNodes computes the capacity and the waste of each node from its free devices. The capacity is computed as
// in the engine.
type freeNodes struct {
	free    []int
	devices int
}

func (m *freeNodes) Capacity(node int) int {
	if m.free[node] < 0 {
		return 0
	}
	return m.free[node] / max(m.devices, 1)
}

func (m *freeNodes) Penalty(node int) int { return m.free[node] % max(m.devices, 1) }

// benchCluster returns a cluster of nodes with 8 devices each. The argument `busy` is the percentage of nodes that
// are partly or fully used.
func benchCluster(nodes, leaf, busy int) (*topology.Tree, *freeNodes) {
	places := make([]topology.Location, nodes)
	for i := range places {
		if leaf > 0 {
			l := i / leaf
			places[i] = topology.Location{Region: "r", Zone: fmt.Sprintf("z%02d", l/256), Spine: fmt.Sprintf("s%04d", l/16), Leaf: fmt.Sprintf("l%05d", l)}
		}
	}
	t := topology.NewTree(places, nil)
	m := &freeNodes{free: make([]int, nodes)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range places {
		m.free[i] = 8
		if r.IntN(100) < busy {
			m.free[i] = r.IntN(8)
		}
		t.SetFree(i, m.free[i], 8)
	}
	return t, m
}

func BenchmarkChoose(b *testing.B) {
	for _, leaf := range []int{32, 4, 0} {
		for _, busy := range []int{0, 70} {
			for _, nodes := range []int{100, 1_000, 10_000} {
				for _, members := range []int{1, 2, 4, 8} {
					b.Run(fmt.Sprintf("leaf=%d/busy=%d/nodes=%d/members=%d", leaf, busy, nodes, members), func(b *testing.B) {
						t, m := benchCluster(nodes, leaf, busy)
						m.devices = 8
						ask := topology.Request{Members: members, DevicesPerMember: 8}
						b.ReportAllocs()
						for b.Loop() {
							if _, _, ok := t.Choose(&ask, m); !ok {
								b.Fatal("does not fit")
							}
						}
					})
				}
			}
		}
	}
}

// BenchmarkChooseMany measures the search for large gangs and for requests that do not fit.
func BenchmarkChooseMany(b *testing.B) {
	for _, leaf := range []int{32, 4, 0} {
		for _, ask := range []topology.Request{
			{Members: 64, DevicesPerMember: 8},
			{Members: 64, DevicesPerMember: 1},
			{Members: 64, DevicesPerMember: 1, Strategy: topology.Consolidated},
			{Members: 64, DevicesPerMember: 1, Strategy: topology.Distributed},
			{Members: 2_048, DevicesPerMember: 1},
			{Members: 2_048, DevicesPerMember: 8},
			{Members: 8, DevicesPerMember: 8, Strategy: topology.Distributed},
			{Members: 8, DevicesPerMember: 8, LatencySensitive: true},
			{Members: 8, DevicesPerMember: 8, PreviousNodes: []int{1, 2, 3}},
			{Members: 2_048, MinMembers: 1, DevicesPerMember: 8, RequiredLevel: "spine"},
		} {
			name := fmt.Sprintf("leaf=%d/%dx%d%s", leaf, ask.Members, ask.DevicesPerMember, ask.Strategy)
			b.Run(fmt.Sprintf("%s/latency=%v/before=%d/min=%d", name, ask.LatencySensitive, len(ask.PreviousNodes), ask.MinMembers), func(b *testing.B) {
				t, m := benchCluster(10_000, leaf, 70)
				m.devices = ask.DevicesPerMember
				b.ReportAllocs()
				for b.Loop() {
					t.Choose(&ask, m)
				}
			})
		}
	}
}

// BenchmarkFill places new gangs and removes the oldest ones, so that the cluster changes before every search.
func BenchmarkFill(b *testing.B) {
	for _, leaf := range []int{32, 4, 0} {
		for _, nodes := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("leaf=%d/nodes=%d", leaf, nodes), func(b *testing.B) {
				t, m := benchCluster(nodes, leaf, 60)
				m.devices = 8
				var ring [8][]topology.Assignment
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					old := &ring[i%len(ring)]
					for _, p := range *old {
						m.free[p.Node] = 8
						t.SetFree(p.Node, 8, 8)
					}
					*old = (*old)[:0]
					picks, _, ok := t.Choose(&topology.Request{Members: 1 + i%8, DevicesPerMember: 8}, m)
					if ok {
						*old = append(*old, picks...)
					}
					for _, p := range *old {
						m.free[p.Node] = 0
						t.SetFree(p.Node, 0, 8)
					}
					i++
				}
			})
		}
	}
}

func BenchmarkSet(b *testing.B) {
	t, _ := benchCluster(10_000, 32, 60)
	i := 0
	for b.Loop() {
		t.SetFree(i*7919%10_000, i%9, 8)
		i++
	}
}

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		benchCluster(10_000, 32, 60)
	}
}
