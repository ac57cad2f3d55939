package planner_test

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// A gang that requires a bandwidth goes only where the labels of all nodes say that there is as much.
func TestBandwidth(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels []string // of the nodes, four in each leaf
		pods   int
		want   string // leaf of the gang, "" if it waits
	}{
		{"no labels", []string{"", "", "", ""}, 4, ""},
		{"enough", []string{"200Gb", "200Gb", "400Gb", "200Gb"}, 4, "leaf-000"},
		{"a class of its own", []string{"250Gbps", "250Gb", "250Gb", "250Gb"}, 4, "leaf-000"},
		{"one node is slower", []string{"200Gb", "200Gb", "100Gb", "200Gb"}, 4, ""},
		{"one node has no label", []string{"200Gb", "200Gb", "", "200Gb"}, 4, ""},
		{"a wrong label counts as none", []string{"200Gb", "200Gb", "200", "200Gb"}, 4, ""},
		{"the second leaf is fast enough", []string{"100Gb", "100Gb", "100Gb", "100Gb", "200Gb", "200Gb", "200Gb", "200Gb"}, 4, "leaf-001"},
		{"across two leaves", []string{"200Gb", "200Gb", "200Gb", "200Gb", "200Gb", "200Gb", "200Gb", "200Gb"}, 8, "leaf-000"},
		{"a pod alone needs no network", []string{"", "", "", ""}, 1, "leaf-000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCluster(t, len(c.labels))
			nodes := map[string]*ares.Node{}
			for i, label := range c.labels {
				n := gpuNode(i)
				n.Labels[watch.LabelBandwidth] = label
				nodes[n.ID] = n
				k.SetNode(n, true, false)
			}
			for i := range c.pods {
				k.pod(fmt.Sprintf("p%d", i), 8, "gang", c.pods, func(p *watch.Pod) { p.Spec.EditPlacement().NetworkBandwidth = "200Gb" })
			}
			k.cycle()
			node, _, _ := strings.Cut(k.plan("p0"), " ")
			got := ""
			if node != "" {
				got = nodes[node].Labels["leaf"]
			}
			if got != c.want {
				t.Errorf("the gang is planned in %q, want %q", got, c.want)
			}
		})
	}
}

// The label may come later: then the gang is planned.
func TestBandwidthLabelComesLater(t *testing.T) {
	k := newCluster(t, 4)
	for i := range 4 {
		k.pod(fmt.Sprintf("p%d", i), 8, "gang", 4, func(p *watch.Pod) { p.Spec.EditPlacement().NetworkBandwidth = "100Gb" })
	}
	if k.cycle(); k.plan("p0") != "" {
		t.Fatal("the gang is planned although the bandwidth is unknown")
	}
	for i := range 4 {
		n := gpuNode(i)
		n.Labels[watch.LabelBandwidth] = "100Gb"
		k.SetNode(n, true, false)
	}
	if k.cycle(); k.plan("p0") == "" {
		t.Error("the gang is not planned although the nodes say their bandwidth now")
	}
}
