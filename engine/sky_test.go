package engine

import (
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// TestSkylineFindsWhatAScanFinds: next is the first node from i on that covers
// the request, after any number of changes.
func TestSkylineFindsWhatAScanFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() height {
			d := rapid.IntRange(0, 3)
			return height{d.Draw(t, "whole"), d.Draw(t, "milli"), d.Draw(t, "cpus"), d.Draw(t, "memory")}
		}
		nodes := make([]*node, rapid.IntRange(0, 20).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i] = &node{record: &ares.Node{}}
		}
		var k sky
		if k.next(0, height{}) != -1 {
			t.Fatal("an empty skyline has a node")
		}
		k.rebuild(nodes) // all closed
		heights := make([]height, len(nodes))
		for i := range heights {
			heights[i] = closed
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				if len(nodes) == 0 {
					t.Skip("no nodes")
				}
				i := rapid.IntRange(0, len(nodes)-1).Draw(t, "i")
				heights[i] = draw()
				k.set(i, heights[i])
			},
			"next": func(t *rapid.T) {
				want, from := draw(), rapid.IntRange(0, 2*len(nodes)+1).Draw(t, "from")
				expected := -1
				for i := from; i < len(nodes) && expected < 0; i++ {
					if heights[i].covers(want) {
						expected = i
					}
				}
				if got := k.next(from, want); got != expected {
					t.Fatalf("next(%d, %v) = %d, want %d in %v", from, want, got, expected, heights)
				}
			},
		})
	})
}
